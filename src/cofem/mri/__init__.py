"""Multi-contrast MRI: images with error bars from undersampled k-space, without a λ."""

from cofem.mri.image.options import ImageOptions
from cofem.mri.metrics import nrmse
from cofem.mri.phantom import phantom
from cofem.mri.reconstruction import reconstruct
from cofem.mri.result import Reconstruction
from cofem.mri.sampling import power_rule_mask
from cofem.mri.scanner.coils import (
    compress_coils,
    noise_covariance,
    whiten_coils,
)
from cofem.mri.scanner.sensitivities import coil_sensitivities
from cofem.mri.total_variation import joint_total_variation
from cofem.mri.transform import to_image, to_kspace

__all__ = [
    "ImageOptions",
    "Reconstruction",
    "coil_sensitivities",
    "compress_coils",
    "joint_total_variation",
    "noise_covariance",
    "nrmse",
    "phantom",
    "power_rule_mask",
    "reconstruct",
    "to_image",
    "to_kspace",
    "whiten_coils",
]
