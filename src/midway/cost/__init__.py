"""The cost of adaptation: parameters, passes, floating-point operations, time, memory, and the paper's own count."""

from midway.cost.measured import Cost, measure_cost
from midway.cost.published import PAPER_FORWARD_PASSES, multiply_adds, paper_gflops

__all__ = ["PAPER_FORWARD_PASSES", "Cost", "measure_cost", "multiply_adds", "paper_gflops"]
