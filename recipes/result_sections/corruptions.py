"""Sections of docs/results.md: fifteen corruptions, one at a time."""

from __future__ import annotations

from result_sections.section import FILTERS, Section

PURE = (
    "Each corruption by itself; the method is reset before it. Settings are the defaults; those of PL, SHOT, LAME, DUA"
    " and SAR are not quite the published ones ([methods.md](methods.md)). MITA is the form with two models and one"
    " step each, chosen on other corruptions, not the present default of three passes, which the section *MITA, its"
    " parts and its rivals* has beside it. TEA has MITA's single Langevin step, computed in the pass of the update (20"
    " steps in passes of their own, as published, cost nine times as much; the section *As published* has both). EATA"
    " has no Fisher images and is therefore ETA. MEMO has its own table below. The paper's numbers are in brackets; it"
    " has none for PL, T3A, LAME and DUA."
)

SECTIONS = (
    Section(
        "pure",
        "Every method on fifteen corruptions",
        PURE,
        "As in the paper, MITA has the highest mean accuracy and the lowest mCE, and TEA is second. MITA's lead over"
        " `tea` is no smaller than in the paper; the gain of both over BN and TENT is smaller. Most of that lead is due"
        " to the number of updates: the two models of MITA take two a batch, `tea` takes one, and `tea_equal_budget`,"
        " which takes two, is behind MITA on noise and slightly ahead of it on six of the fifteen corruptions. MITA is"
        " below BN where the contrast is low or the corruption is weak, as for brightness: it changes images that need"
        " no change. T3A and LAME use the statistics of the source and make its errors; LAME falls below the source,"
        " because it assumes that a batch contains few classes, and these batches are shuffled.",
        ranked=True,
        brief=True,
        costs=True,
        shares=FILTERS,
    ),
    Section(
        "defaults",
        "Every method on fifteen corruptions",
        PURE,
        "As in the paper, MITA has the highest mean accuracy and the lowest mCE, and TEA is second; the differences are"
        " smaller than the paper's, because ten batches are few for methods that update weights. T3A and LAME use the"
        " statistics of the source and make its errors; LAME falls below the source, because it assumes that a batch"
        " contains few classes, and these batches are shuffled.",
        images=2000,
        until="pure",
        ranked=True,
        brief=True,
        costs=True,
        shares=FILTERS,
    ),
    Section(
        "tuned",
        "Tuned settings on fifteen corruptions",
        "The same with the settings that a search with an equal number of trials chose for each method, on other"
        " corruptions ([tuning.md](tuning.md)). MEMO was not searched.",
        "MITA has the highest mean, but not the lead over TEA that it has with default settings: with an equal number"
        " of trials the two are level, each ahead on about half of the corruptions. Both stay above the methods that"
        " minimise entropy.",
        images=2000,
        ranked=True,
        brief=True,
    ),
)
