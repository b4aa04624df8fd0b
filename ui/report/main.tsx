// The report of a router profile begins here; the profile is in the file.
import { render } from "preact";
import type { Profile } from "./profile.ts";
import "./router.css";
import { Report } from "./router.tsx";

const data = document.getElementById("profile")?.textContent;
const main = document.querySelector("main");
if (data && main) render(<Report profile={JSON.parse(data) as Profile} />, main);
