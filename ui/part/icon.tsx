// Icons, inlined so that nothing has to be loaded.
const paths = {
  overview: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  topology: "M12 5.5a2 2 0 1 0 0-.01M5 19.5a2 2 0 1 0 0-.01M19 19.5a2 2 0 1 0 0-.01M11 7.5 6 17M13 7.5l5 9.5M7.2 19h9.6",
  traffic: "M4 4h16v16H4zM4 9.3h16M4 14.7h16M9.3 4v16M14.7 4v16",
  sessions: "M4 6h16v14H4zM4 10h16M8 3.5V7M16 3.5V7M8 14h3M8 17h6",
  level: "M4.5 18a8.5 8.5 0 1 1 15 0M12 14.5l4-5.5M8 18h8",
  experiment: "M10 4v6L4.5 18.5A1.5 1.5 0 0 0 6 21h12a1.5 1.5 0 0 0 1.5-2.5L14 10V4M8.5 4h7M7.5 15.5h9",
  events: "M12 4a5 5 0 0 1 5 5c0 5 2 6 2 7H5c0-1 2-2 2-7a5 5 0 0 1 5-5M10 19.5a2 2 0 0 0 4 0",
  more: "M6 12a1 1 0 1 1-2 0 1 1 0 0 1 2 0M13 12a1 1 0 1 1-2 0 1 1 0 0 1 2 0M20 12a1 1 0 1 1-2 0 1 1 0 0 1 2 0",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2.5V5M12 19v2.5M2.5 12H5M19 12h2.5M5.3 5.3 7 7M17 17l1.7 1.7M18.7 5.3 17 7M7 17l-1.7 1.7",
  moon: "M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10",
  system: "M4 5h16v11H4zM9 20h6M12 16v4",
  pause: "M8 5v14M16 5v14",
  play: "M7 4.5v15l12-7.5z",
  stop: "M6 6h12v12H6z",
  close: "M6 6l12 12M18 6 6 18",
  plus: "M12 5v14M5 12h14",
  left: "M14.5 5.5 8 12l6.5 6.5",
  right: "M9.5 5.5 16 12l-6.5 6.5",
  swap: "M4 8.5h14l-4-4M20 15.5H6l4 4",
  link: "M10 13.5a4 4 0 0 0 6 .5l3-3a4 4 0 0 0-5.7-5.7l-1 1M14 10.5a4 4 0 0 0-6-.5l-3 3a4 4 0 0 0 5.7 5.7l1-1",
  download: "M12 4v11M7 10.5l5 5 5-5M5 20h14",
  image: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15 9.5h.01",
  zoomOut: "M10.5 4.5a6 6 0 1 0 0 12 6 6 0 0 0 0-12M15 15l5 5M8 10.5h5",
  search: "M10.5 4.5a6 6 0 1 0 0 12 6 6 0 0 0 0-12M15 15l5 5",
  warning: "M12 4 2.8 20h18.4zM12 10v5M12 17.5v.01",
  up: "M5.5 14.5 12 8l6.5 6.5",
  down: "M5.5 9.5 12 16l6.5-6.5",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  trash: "M5 7h14M10 4h4M7 7l1 13h8l1-13",
  agent: "M4 5h16v10H4zM9 19h6M12 15v4",
  path: "M5 19a2 2 0 1 0 0-.01M19 5a2 2 0 1 0 0-.01M5 17V9a3 3 0 0 1 3-3h3a3 3 0 0 1 3 3v6a3 3 0 0 0 3 3 2 2 0 0 0 2-2V7",
  loss: "M3 12h8M8 9l3 3-3 3M15 8.5l6 7M21 8.5l-6 7",
  clock: "M12 4a8 8 0 1 0 .01 0M12 8v4.5l3 2",
  spool: "M5 6.5C5 5 8 4 12 4s7 1 7 2.5-3 2.5-7 2.5S5 8 5 6.5M5 6.5v11C5 19 8 20 12 20s7-1 7-2.5v-11",
  info: "M12 4a8 8 0 1 0 .01 0M12 11v5M12 8v.01",
  copy: "M9 9h11v11H9zM15 9V4H4v11h5",
} as const;

export type IconName = keyof typeof paths;

/** Icon is a decoration beside a word; a button with an icon alone needs a label. */
export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" width="20" height="20" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round">
      <path d={paths[name]} />
    </svg>
  );
}
