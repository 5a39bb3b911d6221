"""Models of timm: small ones of each of its families, with random weights, images of any size where they take them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import torch

from lowering.architectures.inputs import Sets
from tests.tables.architectures.listed import by_name, images, spread, takes
from tests.tables.architectures.subject import Subject

NAMES = """
beit_base_patch16_224+depth=2 beitv2_base_patch16_224+depth=2
halonet_h1 botnet26t_256 eca_halonext26ts lambda_resnet26t lambda_resnet26rpt_256 haloregnetz_b sebotnet33ts_256
halo2botnet50ts_256
gernet_s mobileone_s0 regnetz_b16 regnetz_b16_evos repvgg_a0 resnet50_clip bat_resnext26ts gcresnext26ts
eca_resnext26ts resnet51q test_byobnet
cait_xxs24_224+depth=4
coat_tiny coat_lite_tiny
convit_tiny
convmixer_768_32
convnext_atto convnext_atto_ols convnext_zepto_rms convnextv2_atto
cpubone_nano cpubone_b0_bfrobust cpubone_s0
crossvit_tiny_240 crossvit_9_dagger_240
csatv2
cs3darknet_focus_s cs3darknet_s cspresnet50 cspresnext50 darknet17 sedarknet21 darknetaa53
cspnext_tiny
davit_tiny
deepseek_vit_412m+depth=2
deit_tiny_patch16_224 deit_tiny_distilled_patch16_224 deit3_small_patch16_224+depth=4
densenet121 densenetblur121d
dla34 dla46x_c dla60_res2net
dpn48b dpn68
edgenext_xx_small
efficientformer_l1 efficientformerv2_s0
efficientnet_b0 efficientnet_b0_gn efficientnet_blur_b0 efficientnet_cc_b0_4e efficientnet_es efficientnet_lite0
efficientnetv2_rw_t fbnetc_100 gc_efficientnetv2_rw_t mixnet_s mnasnet_small mobilenet_edgetpu_v2_xs mobilenetv1_100
mobilenetv2_035 semnasnet_050 spnasnet_100 tf_efficientnet_b0 tf_efficientnetv2_b0 tf_mixnet_s tinynet_e
efficientnet_b0_g16_evos
efficientvim_m1
efficientvit_b0 efficientvit_l1 efficientvit_m0
eva02_tiny_patch14_224 vit_small_patch16_dinov3+depth=2 vit_small_patch16_rope_224+depth=2
vit_small_patch16_rope_mixed_224+depth=2 vit_pe_core_tiny_patch16_384+depth=2 eva_giant_patch14_224+depth=1
fasternet_t0
fastvit_t8 fastvit_mci0
focalnet_tiny_srf
gcvit_xxtiny
gemma4_vit_167m+depth=2
ghostnet_050 ghostnetv2_100 ghostnetv3_050
hardcorenas_a
hgnet_tiny hgnetv2_b0
hiera_tiny_224 hiera_small_abswin_256
sam2_hiera_tiny hieradet_small
hrnet_w18_small
iformer_t iformer_s
inception_next_atto inception_resnet_v2 inception_v3 inception_v4
lcnetv2_small
levit_128s levit_conv_128s
lowformer_b0
mambaout_femto test_mambaout
coatnet_pico_rw_224 coatnet_rmlp_nano_rw_224 coatnext_nano_rw_224 maxvit_pico_rw_256 maxvit_tiny_tf_224
maxxvit_rmlp_nano_rw_256 test_maxvit
poolformer_s12 poolformerv2_s12 convformer_s18 caformer_s18
gmixer_12_224 gmlp_ti16_224 mixer_s32_224 resmlp_12_224
mobilenetv3_small_050 lcnet_035 fbnetv3_b mobilenetv4_conv_small_035 mobilenetv4_hybrid_medium_075
mobilenetv4_conv_aa_medium tf_mobilenetv3_small_minimal_100
mobilenetv5_base
mobilevit_xxs mobilevitv2_050
mvitv2_tiny mvitv2_small_cls
naflexvit_base_patch16_gap+depth=2 naflexvit_base_patch16_map+depth=2
nasnetalarge
nest_tiny_jx
nextvit_small
dm_nfnet_f0 eca_nfnet_l0 nf_regnet_b0 nf_resnet26 nf_seresnet26 nf_ecaresnet26 nfnet_l0 test_nfnet
pit_ti_224 pit_ti_distilled_224
pnasnet5large
pvt_v2_b0 pvt_v2_b2_li
qwen3_vit_88m+depth=2
rdnet_tiny
regnetx_002 regnety_002 regnetz_005 regnetv_040
repghostnet_050
repvit_m0_9
res2net50_14w_8s res2next50
resnest14d
resnet18 resnet26t resnet10t ecaresnet26t seresnext26t_32x4d resnetblur18 resnetaa34d resnetrs50 resnet50_gn
test_resnet
resnetv2_18 resnetv2_50x1_bit resnetv2_50d_frn
rexnet_100 rexnetr_100
selecsls42
legacy_seresnet18 legacy_seresnext26_32x4d
sequencer2d_s
shvit_s1
skresnet18
starnet_s050
swiftformer_xs
swin_tiny_patch4_window7_224 swin_s3_tiny_224
swinv2_tiny_window8_256 swinv2_cr_tiny_224
tiny_vit_5m_224
tnt_s_patch16_224 tnt_s_legacy_patch16_224
tresnet_m tresnet_v2_l
twins_pcpvt_small twins_svt_small
vgg11_bn
visformer_tiny
vit_tiny_patch16_224+depth=4 flexivit_small+depth=2 test_vit test_vit2 test_vit3 test_vit4
vit_base_patch16_siglip_224+depth=2 vit_small_patch14_reg4_dinov2+depth=2 vit_wee_patch16_reg1_gap_256
vit_small_patch16_36x1_224+depth=4 vit_base_patch16_xp_224+depth=2 vit_base_patch16_clip_quickgelu_224+depth=2
beit3_base_patch16_224+depth=2 aimv2_large_patch14_224+depth=2
vit_tiny_r_s16_p8_224 vit_small_resnet26d_224+depth=2 vit_base_mci_224+depth=2
test_vit_relpos vit_srelpos_small_patch16_224
samvit_base_patch16_224+depth=2
vitamin_small_224
volo_d1_224
ese_vovnet19b_slim_dw eca_vovnet39b
legacy_xception xception41p
xcit_nano_12_p16_224
"""
"""The names in timm, a family or two a line; `+depth=2` makes a model that many blocks deep."""
FREE = ((2, 64, 96), (1, 96, 64), (3, 128, 96))
"""Numbers, heights and widths of images, for models that take any."""


def subjects() -> Mapping[str, Subject]:
    """Each model by its name. Raises ModuleNotFoundError without timm."""
    families = importlib.import_module("timm.models._registry")._model_to_module
    return by_name([subject(text, families) for text in NAMES.split()])


def subject(text: str, families: Mapping[str, str]) -> Subject:
    """The subject of one name with its options."""
    name, *more = text.split("+")
    options = {key: int(value) for key, _, value in (each.partition("=") for each in more)}

    def build() -> Any:
        model = importlib.import_module("timm").create_model(name, pretrained=False, num_classes=10, **options)
        return spread(model, sets(model))

    return Subject("timm", name, families[name], build, sets)


def sets(model: Any) -> Sets:
    """Images of several sizes where eager takes them, else several numbers of images of the model's own size."""
    known = {"input_size": (3, 224, 224), "fixed_input_size": False, **model.pretrained_cfg}
    channels, high, wide = known["input_size"]
    if not known["fixed_input_size"]:
        free = images(model, FREE, {0: "batch", 2: "height", 3: "width"}, channels)
        if takes(model, [free.example, *free.others.values()]):
            return free
    torch.manual_seed(0)
    return images(model, [(2, high, wide), (1, high, wide), (3, high, wide)], {0: "batch"}, channels)
