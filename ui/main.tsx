// The page begins here.
import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style/colour.css";
import "./style/page.css";
import "./style/part.css";
import { Page } from "./view/page.tsx";

const root = document.getElementById("page");
if (root) render(<Page />, root);
