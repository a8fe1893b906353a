"""Time the corruptions against an image-at-a-time implementation in the same run.

The slow side does what the published generator does, one image after the other with scipy and Pillow: loops over
pixels for glass blur, over taps for motion blur, over zoom factors for zoom blur, and so on. Both sides run at
severity 5. The slow side sees fewer images (``--naive-images``) and its time is scaled. Prints a table and writes
``runs/benchmarks/corruptions_speed.json``.

    python benchmarks/corruptions_speed.py --images 10000 --size 32
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy import ndimage

from midway.data import corrupt, corruption_names
from midway.data.corruptions import REGISTRY
from midway.data.corruptions.blur import disk
from midway.data.corruptions.registry import closest_size
from midway.data.corruptions.spatter import edge_distance, edges, equalise
from midway.data.corruptions.weather import frost_photograph

Array = np.ndarray[Any, np.dtype[Any]]
OUTPUT = Path("runs/benchmarks/corruptions_speed.json")


def clipped_zoom(image: Array, factor: float) -> Array:
    """Zoom into the centre of one image (H, W, C)."""
    side = len(image)
    kept = math.ceil(side / factor)
    top = (side - kept) // 2
    zoomed = ndimage.zoom(image[top : top + kept, top : top + kept], (factor, factor, 1), order=1)
    trim = (len(zoomed) - side) // 2
    return np.asarray(zoomed[trim : trim + side, trim : trim + side])


def motion(image: Array, radius: float, sigma: float, angle: float) -> Array:
    """Streak one image (H, W, C) along an angle in degrees, tap by tap."""
    reach = 2 * int(radius)
    weights = np.exp(-(np.arange(reach + 1) ** 2) / (2 * sigma**2))
    weights /= weights.sum()
    padded = np.pad(image, ((reach, reach), (reach, reach), (0, 0)), mode="edge")
    down, right = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    total = np.zeros(image.shape)
    for i, weight in enumerate(weights):
        top, left = reach + math.ceil(i * down - 0.5), reach + math.ceil(i * right - 0.5)
        total += weight * padded[top : top + image.shape[0], left : left + image.shape[1]]
    return np.round(total)


def plasma(side: int, decay: float, rng: np.random.Generator) -> Array:
    """Make one cloud map by diamond-square."""
    field = np.zeros((side, side))
    step, wibble = side, 100.0

    def mean(total: Array) -> Array:
        return total / 4 + wibble * rng.uniform(-wibble, wibble, total.shape)

    while step >= 2:
        half = step // 2
        corners = field[::step, ::step]
        pairs = corners + np.roll(corners, -1, axis=0)
        field[half::step, half::step] = mean(pairs + np.roll(pairs, -1, axis=1))
        centres = field[half::step, half::step]
        for axis, place in ((0, np.s_[::step, half::step]), (1, np.s_[half::step, ::step])):
            field[place] = mean(
                centres + np.roll(centres, 1, axis=axis) + corners + np.roll(corners, -1, axis=1 - axis)
            )
        step, wibble = half, wibble / decay
    field -= field.min()
    return np.asarray(field / field.max())


def hsv(image: Array, change: Callable[[Array, Array], tuple[Array, Array]]) -> Array:
    """Go to HSV, change saturation and value, and come back, as colour libraries do."""
    value, low = image.max(axis=2), image.min(axis=2)
    spread = value - low
    safe = np.where(spread == 0, 1, spread)
    red, green, blue = np.moveaxis(image, 2, 0)
    hue = np.where(
        value == red, (green - blue) / safe, np.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe)
    )
    hue = np.where(spread == 0, 0, hue % 6)
    saturation, value = change(np.where(value > 0, spread / np.where(value > 0, value, 1), 0), value)
    sector, rest = np.floor(hue).astype(int) % 6, hue - np.floor(hue)
    p, q, t = value * (1 - saturation), value * (1 - rest * saturation), value * (1 - (1 - rest) * saturation)
    table = [(value, t, p), (q, value, p), (p, value, t), (p, q, value), (t, p, value), (value, p, q)]
    return np.stack([np.choose(sector, [row[c] for row in table]) for c in range(3)], axis=2)


def naive(name: str, image: Array, strength: tuple[float, ...], rng: np.random.Generator) -> Array:
    """Corrupt one image (H, W, 3), plainly; values from 0 to 1 come back unclipped."""
    x = image / 255
    side = len(image)
    match name:
        case "gaussian_noise":
            return x + rng.normal(size=x.shape, scale=strength[0])
        case "speckle_noise":
            return x + x * rng.normal(size=x.shape, scale=strength[0])
        case "shot_noise":
            return rng.poisson(x * strength[0]) / strength[0]
        case "impulse_noise":
            hit, salt = rng.random(x.shape) < strength[0], rng.random(x.shape) < 0.5
            return np.where(hit, salt, x)
        case "defocus_blur":
            kernel = disk(*strength)
            return np.stack([ndimage.correlate(x[..., c], kernel, mode="mirror") for c in range(3)], axis=2)
        case "gaussian_blur":
            return np.asarray(ndimage.gaussian_filter(x, (strength[0], strength[0], 0), mode="nearest"))
        case "glass_blur":
            sigma, reach, passes = strength[0], int(strength[1]), int(strength[2])
            glass = (ndimage.gaussian_filter(x, (sigma, sigma, 0), mode="nearest") * 255).astype(np.uint8)
            for _ in range(passes):
                for h in range(side - reach, reach, -1):
                    for w in range(side - reach, reach, -1):
                        right, down = rng.integers(-reach, reach, 2)
                        glass[h, w] = glass[h + down, w + right]
            return np.asarray(ndimage.gaussian_filter(glass / 255, (sigma, sigma, 0), mode="nearest"))
        case "motion_blur":
            return motion(image, strength[0], strength[1], rng.uniform(-45, 45)) / 255
        case "zoom_blur":
            factors = np.arange(1, *strength)
            return np.asarray((x + sum(clipped_zoom(x, factor) for factor in factors)) / (len(factors) + 1))
        case "snow":
            mean, deviation, zoom, threshold, radius, sigma, kept = strength
            layer = clipped_zoom(rng.normal(mean, deviation, (side, side, 1)), zoom)
            layer[layer < threshold] = 0
            layer = motion(np.floor(np.clip(layer, 0, 1) * 255), radius, sigma, rng.uniform(-135, -45)) / 255
            grey = (x @ [0.299, 0.587, 0.114])[..., None]
            return kept * x + (1 - kept) * np.maximum(x, grey * 1.5 + 0.5) + layer + np.rot90(layer, 2)
        case "frost":
            photograph = frost_photograph(int(rng.integers(5)), strength[2], side, side)
            top = rng.integers(0, max(photograph.shape[0] - side, 1))
            left = rng.integers(0, max(photograph.shape[1] - side, 1))
            return strength[0] * x + strength[1] * photograph[top : top + side, left : left + side] / 255
        case "fog":
            clouds = plasma(1 << (side - 1).bit_length(), strength[1], rng)[:side, :side, None]
            return np.asarray((x + strength[0] * clouds) * x.max() / (x.max() + strength[0]))
        case "brightness":
            return hsv(x, lambda s, v: (s, np.clip(v + strength[0], 0, 1)))
        case "saturate":
            return hsv(x, lambda s, v: (np.clip(s * strength[0] + strength[1], 0, 1), v))
        case "contrast":
            mean_colour = x.mean(axis=(0, 1), keepdims=True)
            return np.asarray((x - mean_colour) * strength[0] + mean_colour)
        case "elastic_transform":
            size, spread, jitter = (value * side * strength[3] for value in strength[:3])
            points = side // 2 + side // 3 * np.array([[1, 1], [1, -1], [-1, -1]])
            moved = np.c_[points + rng.uniform(-jitter, jitter, (3, 2)), np.ones(3)]
            back = np.linalg.solve(moved, points.astype(float))
            rows, columns = np.indices((side, side))
            right, down = (columns * back[0, k] + rows * back[1, k] + back[2, k] for k in (0, 1))
            x = np.stack(
                [ndimage.map_coordinates(x[..., c], [down, right], order=1, mode="mirror") for c in range(3)], axis=2
            )
            dx, dy = (
                ndimage.gaussian_filter(rng.uniform(-1, 1, (side, side)), spread, truncate=3) * size for _ in "xy"
            )
            return np.stack(
                [
                    ndimage.map_coordinates(x[..., c], [rows + dy, columns + dx], order=1, mode="reflect")
                    for c in range(3)
                ],
                axis=2,
            )
        case "pixelate":
            small = (int(side * strength[0]),) * 2
            box = Image.Resampling.BOX
            return np.asarray(Image.fromarray(image).resize(small, box).resize((side, side), box)) / 255
        case "jpeg_compression":
            file = io.BytesIO()
            Image.fromarray(image).save(file, "JPEG", quality=int(strength[0]))
            return np.asarray(Image.open(file)) / 255
        case "spatter":
            mean, deviation, sigma, threshold, amount, mud = strength
            layer = ndimage.gaussian_filter(rng.normal(mean, deviation, (side, side)), sigma, mode="nearest")
            if mud:
                cover = ndimage.gaussian_filter((layer > threshold).astype(float), amount, mode="nearest")[..., None]
                cover[cover < 0.8] = 0
                return np.asarray(x * (1 - cover) + cover * (np.array([63, 42, 20]) / 255))
            liquid = (np.where(layer < threshold, 0, layer) * 255).astype(np.uint8)
            level = equalise(np.minimum(edge_distance(edges(liquid[None])), 20).astype(np.uint8))[0]
            drops = (liquid * level.astype(float))[..., None]
            return np.asarray(x + amount * drops / max(drops.max(), 1) * (np.array([175, 238, 238]) / 255))
    raise ValueError(name)


def main() -> None:
    """Time both sides of each corruption, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10_000, help="images for the batched side")
    parser.add_argument("--naive-images", type=int, default=50, help="images for the slow side")
    parser.add_argument("--size", type=int, default=32, help="side of the images")
    parser.add_argument("--severity", type=int, default=5)
    parser.add_argument("--only", default=",".join(corruption_names()), help="corruptions, comma-separated")
    options = parser.parse_args()

    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (options.images, 8, 8, 3), dtype=np.uint8)
    places = np.arange(options.size) * 8 // options.size
    images = coarse[:, places][:, :, places]
    images += rng.integers(0, 30, images.shape, dtype=np.uint8)
    few = images[: options.naive_images]

    rows = []
    print(f"{options.images} images of {options.size} x {options.size}, severity {options.severity}\n")
    print("| corruption | batched s | CPU s | one by one s (scaled) | ratio |\n| --- | --- | --- | --- | --- |")
    for name in options.only.split(","):
        corrupt(images[:2], name, severity=options.severity)  # read overlays, build operators
        wall, processor = time.perf_counter(), time.process_time()
        corrupt(images, name, severity=options.severity)
        batched, batched_cpu = time.perf_counter() - wall, time.process_time() - processor

        strength = REGISTRY[name].strength(closest_size(options.size, options.size), options.severity)
        wall, processor = time.perf_counter(), time.process_time()
        for image in few:
            np.uint8(np.clip(naive(name, image, strength, rng), 0, 1) * 255)
        scale = len(images) / len(few)
        slow, slow_cpu = (time.perf_counter() - wall) * scale, (time.process_time() - processor) * scale
        rows.append(
            {
                "corruption": name,
                "batched_seconds": batched,
                "batched_cpu_seconds": batched_cpu,
                "naive_seconds": slow,
                "naive_cpu_seconds": slow_cpu,
                "ratio": slow / batched,
                "cpu_ratio": slow_cpu / batched_cpu,
            }
        )
        print(f"| {name} | {batched:.2f} | {batched_cpu:.2f} | {slow:.1f} | {slow / batched:.1f} |", flush=True)
    fifteen = [row for row in rows if row["corruption"] in corruption_names("benchmark")]
    wall_total, cpu_total = (
        sum(float(row[key]) for row in fifteen) for key in ("batched_seconds", "batched_cpu_seconds")
    )
    print(f"\nThe {len(fifteen)} of the benchmark: {wall_total:.1f} s, {cpu_total:.1f} s of processor time.")
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "images": options.images,
        "size": options.size,
        "severity": options.severity,
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "rows": rows,
    }
    OUTPUT.write_text(json.dumps(record, indent=2) + "\n")
    print(f"Written to {OUTPUT}.")


if __name__ == "__main__":
    main()
