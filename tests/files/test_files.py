"""Files are written whole or not at all, and nothing in them is trusted."""

import io
import json
import os
import signal
import stat
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

from structboost import StructBoostClassifier, load_model
from structboost.errors import ModelFileError
from structboost.files.atomic_write import whole_file, whole_folder, write_whole
from structboost.segmentation.descriptors import DescribedImage, describe
from structboost.segmentation.feature_cache import FeatureCache
from structboost.segmentation.potentials import n_unary_potentials, unary_potentials
from structboost.segmentation.scribbles import N_SCRIBBLE_FEATURES, scribble_log_probabilities
from structboost.segmentation.segmenter import Segmenter
from structboost.segmentation.unaries import GROUPS, joint_rows, n_joint_features
