"""Sections of docs/results.md: clustered statistics."""

from __future__ import annotations

from result_sections.section import Section

CLUSTERED = tuple(f"{name}_clustered" for name in ("bn", "tent", "eata", "sar", "shot", "tea", "mita"))
MIRRORED = ("bn_clustered_mirror", "tent_clustered_mirror", "mita_without_data_clustered_mirror")
WITH_UPDATES = ("source", "bn", "mita", "mita_without_data_mirror", *CLUSTERED, *MIRRORED)


SECTIONS = (
    Section(
        "clustered_tuning",
        "Clustered statistics: the corruptions they were tuned on",
        "Batch statistics are part of what limits methods on outliers and mixtures: an image is normalised with"
        ' statistics from unrelated images. With `statistics="clustered"`, which the paper does not have, the kinds of'
        " images are found from their spectra, each is normalised with its own statistics, and kinds that come"
        " back are remembered ([clustered.md](clustered.md)); the last row has no memory. The constants were"
        " chosen on these corruptions; twenty outliers a stream, no weight is updated.",
        "Where the two corruptions differ much (blur and noise), mixtures gain much, and the outliers rise from"
        " below the unadapted Source to far above it. Where they are similar (saturate and spatter), the mixture"
        " gains about a point, and lone images of spatter stay below Source.",
        images=4000,
        brief=True,
    ),
    Section(
        "outlier_statistics",
        "Clustered statistics: outliers",
        "The streams of the section on outliers, with and without clustered statistics; no weight is updated. The"
        " corruptions were not used to choose the constants. Fifty outliers a seed are few (one is two points);"
        " [clustered.md](clustered.md) has a thousand a pair.",
        "Outliers are above Source in five of the six pairs, with BN in three. They gain over BN in four pairs; on"
        " elastic transform in fog, below Source either way, and defocus blur in zoom blur the two are level. Zoom"
        " blur and contrast lose about a third of a point in the rest of the streams, the others hardly anything.",
        brief=True,
        means=True,
    ),
    Section(
        "mixture_statistics",
        "Clustered statistics: mixtures",
        "The streams of the section on mixtures, with and without clustered statistics; no weight is updated.",
        "All mixtures gain. In the mean clustered statistics are within a point of the oracle, which knows the kinds"
        " ([clustered.md](clustered.md)).",
        brief=True,
        means=True,
    ),
    Section(
        "outlier_clustered",
        "Methods with clustered statistics: outliers",
        "The streams of the section on outliers, with methods that update weights, in bf16; the first four columns"
        " are without clustered statistics.",
        "On the outliers, of which a pair has fifty a seed, all methods with clustered statistics are level within "
        "the spread over seeds, about twenty points above the same methods without them; elastic transform alone "
        "stays below the unadapted Source. On the rest of the streams, and on all images, they are level with the "
        "same methods without them, so MITA leads those that see each image once. With mirrored views and unmoved "
        "images MITA has the highest mean of these rows, more than half a point above TENT with mirrored views on "
        "all images for one pass more, and on the outliers level with it within the spread.",
        beside="outlier",
        rows=WITH_UPDATES,
        brief=True,
        means=True,
    ),
    Section(
        "mixture_clustered",
        "Methods with clustered statistics: mixtures",
        "The streams of the section on mixtures, with methods that update weights, in bf16; the first four columns"
        " are without clustered statistics.",
        "Every method gains about as much as BN. Of the methods that see each image once, MITA with clustered"
        " statistics has the highest mean; with motion blur and contrast EATA is slightly above it, and with elastic"
        " transform and fog TEA is level with it. Mirrored views add to what the statistics bring: BN with both, in"
        " two passes, is above MITA with the statistics alone in the mean, and MITA with both and unmoved images has"
        " the highest mean of these rows for four passes, more than eight points above plain BN, and half of MITA's"
        " calibration error; TENT with both is half a point below it for three passes.",
        beside="mixture",
        rows=WITH_UPDATES,
        brief=True,
        means=True,
    ),
    Section(
        "clustered_pure",
        "Clustered statistics: fifteen corruptions",
        "One corruption at a time, with and without clustered statistics; no weight is updated.",
        "Where all images are of one kind, clustered statistics cost less than a fifth of a point in the mean, and"
        " nowhere half a point. Zoom blur and glass blur lose most: unusual content is taken for a kind of its own,"
        " and normalised by itself it loses what tells its class.",
        brief=True,
    ),
    Section(
        "clustered_pure_updates",
        "Clustered statistics: fifteen corruptions with updates",
        "One corruption at a time, with clustered statistics and methods that update weights, in bf16; the first five"
        " columns are without clustered statistics, and all columns have one seed.",
        "Clustered statistics cost methods that update weights as little as BN: about a fifth of a point in the "
        "mean, most on contrast, glass blur and JPEG compression. With mirrored views and unmoved images MITA has "
        "the highest mean of these rows, because of the noises, glass blur and JPEG compression, for one pass more "
        "than TENT with mirrored views, which is ahead on blur, brightness and contrast.",
        beside="never_harm",
        rows=(
            "bn",
            "tent",
            "mita",
            "bn_mirror",
            "tent_mirror",
            "tent_clustered",
            "mita_clustered",
            *MIRRORED,
        ),
        brief=True,
    ),
    Section(
        "clustered_mixed",
        "Clustered statistics: mixed domains",
        "All fifteen corruptions in random order, the first 667 test images under each. `bn_alpha` is alpha-BN,"
        " `bn_unmix` UnMix-TNS with the 128 components published for mixed domains ([methods.md](methods.md)); no"
        " weight is updated.",
        "Clustered statistics close nearly three quarters of the gap between BN on the mixture and BN on each"
        " corruption by itself (its mean is in the first table, for other images). On glass blur, elastic transform"
        " and JPEG compression they are one to three points below the statistics of the batch. The two published"
        " statistics stay near Source with this network; why was not examined.",
        images=10_005,
        brief=True,
    ),
    Section(
        "clustered_cifar100",
        "Clustered statistics: CIFAR-100",
        "A ResNet-56 with 100 classes; one image in twenty is an outlier.",
        "Where the kinds differ much, mixtures gain four to ten points, and outliers rise from below Source to far"
        " above it; TENT adds a little to the mixtures. Unlike with ten classes, the other three mixtures gain"
        " hardly anything, and elastic transform is below Source in its mixture with every method. The statistics of"
        " the batch are slightly better for defocus blur in zoom blur. The rest of the streams with outliers loses"
        " up to two points, more than with ten classes.",
        images=2000,
        brief=True,
    ),
    Section(
        "clustered_pacs",
        "Clustered statistics: domains",
        "EfficientNet-lite0, fine-tuned on the photos of PACS, on its other domains, in batches of 100.",
        "Clustered statistics do not help here. On paintings and sketches they change little, on cartoons they are four"
        " points below BN. The spectra of drawings differ by what is drawn as much as by domain, so a domain falls into"
        " several kinds; the prior is not the cause (BN with it is level with BN). The published step of TENT moves"
        " nothing in so few batches.",
        images=420,
        brief=True,
    ),
    Section(
        "clustered_pacs_mixed",
        "Clustered statistics: domains mixed",
        "The same network on the four domains in random order.",
        "Clustered statistics are two points below those of the batch, because of the cartoons. Either cost"
        " paintings twelve to fourteen points and photos two to three, the statistics of the batch a little more.",
        images=1680,
        brief=True,
    ),
    Section(
        "clustered_imagenet",
        "Clustered statistics: images of ImageNet's size",
        "EfficientNet-lite0 on 300 validation images of ImageNet, 224 pixels, in batches of 100; one image in twenty is"
        " an outlier.",
        "Few images, on which this network is seldom right: three are a point. Pixelate and shot noise gain in their"
        " mixture; glass blur and gaussian noise are within chance. On fog alone, and on the images around fifteen"
        " outliers, clustered statistics are one to two points below those of the batch. No outlier is right with any"
        " of the three.",
        images=300,
        brief=True,
    ),
)
