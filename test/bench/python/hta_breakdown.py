"""Prints how HTA (PyPI's HolisticTraceAnalysis) divides the time of the devices in the profiles of a folder.

python3 hta_breakdown.py FOLDER
"""

import sys

from hta.trace_analysis import TraceAnalysis

print(TraceAnalysis(trace_dir=sys.argv[1]).get_temporal_breakdown(visualize=False).to_string())
