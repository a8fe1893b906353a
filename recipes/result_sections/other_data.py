"""Sections of docs/results.md: other data sets and networks."""

from __future__ import annotations

from result_sections.section import FILTERS, Section

SECTIONS = (
    Section(
        "cifar100",
        "CIFAR-100",
        "A ResNet-56 (0.9 million weights, 72.6 % on clean images) on corrupted CIFAR-100; the paper has another "
        "network. The images are the test set in an order shuffled once, and the weights are public (the head of "
        "the plan gives the source of both). Settings are the defaults; the step of SAR is a tenth of that on "
        "CIFAR-10. MEMO is left out because of its cost. The networks run in bf16.",
        "Every method that updates weights is above BN on all fifteen corruptions. TEA has the highest mean of the "
        "methods that see each image once; MITA is more than half a point below it, and below SHOT and TENT by less; "
        "in the paper MITA is first. TENT with mirrored views is above all of them on every corruption. With full "
        "steps MITA fell below BN on blur by up to nine points: its images moved too far on this network, and with a "
        "hundred classes every batch is uncertain, so its steps were never shortened. They therefore also depend on "
        "the number of classes ([methods.md](methods.md)), by a factor that was chosen on other corruptions.",
        brief=True,
        shares=FILTERS[1:],
        against=("bn", "tea"),
        ranked=True,
    ),
    Section(
        "imagenet",
        "ImageNet size",
        "EfficientNet-lite0 (4.7 million weights, 224 pixels) on ImageNet validation images, one of each class, in"
        " batches of 50. The same code as for CIFAR, with settings chosen by the number of classes and the size of"
        " the images. The paper has no such table. MEMO has its own table below.",
        "With only two batches, methods that predict before they adapt are equal to BN: TENT and SHOT have taken one "
        "small step when they predict the second batch, and the filters of PL, EATA and SAR select almost no image "
        "except under fog: with statistics of so few images, at this severity, few predictions are confident. TEA "
        "and MITA, which predict after their update, are within two images of BN and one of each other. Batch "
        "statistics help against noise, blur and fog, and harm where JPEG compression had little effect.",
        images=100,
        brief=True,
        shares=FILTERS,
    ),
    Section(
        "imagenet_memo",
        "ImageNet size: MEMO",
        "The same network and corruptions, 64 views of each image as published, on few images. Source has the same"
        " images.",
        "MEMO runs without changes. With so few images, one of which is six points, the numbers have no other meaning.",
        images=16,
        brief=True,
    ),
    Section(
        "pacs",
        "Domain shift: PACS",
        "EfficientNet-lite0, fine-tuned on photos (recipes/finetune_pacs.py) and tested on the other three"
        " domains, 60 images a class at 128 pixels, in batches of 60. The published set has more images: with them"
        " the command gives other numbers.",
        "Batch statistics give most of the possible gain, and model adaptation, in TEA, slightly more. MITA has the"
        " highest mean, with its default settings within the spread over seeds and with those tuned on CIFAR-10,"
        " because of cartoons and sketches; on paintings TEA is slightly above it, and T3A, which keeps the source's"
        " statistics, above both. A limit on the steps of images, introduced when the sketches had been seen, is"
        " needed: without it they are lost ([methods.md](methods.md)). With 420 images, four of them are a point; the"
        " seeds have the same images in other orders.",
        images=420,
        brief=True,
        shares=FILTERS,
        against=("bn", "tea"),
    ),
)
