// The charts, a file of its own: pages without a chart do not load it.

import uPlot from "uplot";
import "../thirdparty/uplot.css";

export default uPlot;
