// The charts, a file of its own: pages without a chart do not load it.

import uPlot from "uplot";

export default uPlot;
