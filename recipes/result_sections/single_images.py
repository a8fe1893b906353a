"""Sections of docs/results.md: methods that adapt to single images, some of them with networks of their own."""

from __future__ import annotations

from result_sections.section import Section

SECTIONS = (
    Section(
        "memo",
        "MEMO",
        "MEMO adapts to every image separately, with 32 views of it. One image takes it as long as about sixty images"
        " take TENT, so it has fewer images than the other methods. Source has the same images.",
        "MEMO gains on thirteen of the fifteen corruptions, most on noise, without any other image, and loses"
        " slightly under elastic transform and pixelate. The MITA paper reports a much larger gain for it, nearly as"
        " large as that of batch statistics; MEMO as published adapts to single images, which have no batch"
        " statistics.",
        images=1000,
        brief=True,
    ),
    Section(
        "memo_network",
        "MEMO on its own network",
        "MEMO as published for CIFAR-10: a ResNet-26 with GroupNorm, the weights that its authors provide, and the"
        " dark red border of its code. Source is that network on the same images; the numbers in brackets are of"
        " the MITA paper's network. The head of the plan says where the weights come from.",
        "MEMO gains three points in the mean over its Source, on eleven of the fifteen corruptions; two are level and"
        " two lose an image. It does not reach the number of the MITA paper, which has another network. With a"
        " hundred images a corruption one image is a point.",
        images=100,
        brief=True,
    ),
    Section(
        "ttt",
        "TTT",
        "TTT needs a network that was trained with a rotation head, so it has a Source column of its own: the"
        " embedded network with GroupNorm and such a head (90.44 % on clean images, [methods.md](methods.md))."
        " This is TTT-Online: one step on the four rotations of each image before it is predicted, from the"
        " weights that the images before have left. It adapts to one image at a time, with five forward and four"
        " backward passes each, and has few images: two of them are a point. The paper has no numbers for TTT;"
        " those of Source in brackets are"
        " of its network.",
        "TTT gains much where this network is weakest (noise, pixelate) and is above Source on nine of the fifteen"
        " corruptions; it loses on four, by far the most on motion blur, so by mCE it gains hardly anything. BN on"
        " the embedded network, which is another network, is ten points above it with 10,000 images. The step is the"
        " published one. A step three times as large, which the tuning corruptions cannot tell from it, was tried"
        " first on half as many images, with weights of an earlier training: it gained nothing in the mean.",
        images=200,
        brief=True,
    ),
    Section(
        "dda",
        "DDA",
        "DDA purifies every image separately with the embedded denoiser and answers with the mean of the"
        " probabilities of the image as given and as adapted ([methods.md](methods.md)); `dda_alone` answers with"
        " the adapted image alone. Settings are the defaults, which were chosen on other corruptions. Source has"
        " the same images.",
        "DDA is above Source on eleven of the fifteen corruptions, by far on gaussian and shot noise, frost and"
        " pixelate, without any other image and without a change of the network; it is below Source on fog, most of"
        " all, elastic transform, brightness and contrast. The adapted images alone are better on noise and"
        " pixelate, and far worse on fog, brightness and elastic transform: the ensemble gives up a part of the gain"
        " and avoids most of the loss elsewhere. Methods with batch statistics gain more (the section *Every method"
        " on fifteen corruptions* has them); DDA needs no batch. Five images are a point.",
        images=500,
        brief=True,
    ),
)
