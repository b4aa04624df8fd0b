// Notices: empty states and errors.
import type { ComponentChildren } from "preact";

interface NoticeProps {
  /** Short heading. */
  title: string;
  /** Reason and next steps. */
  children?: ComponentChildren;
  /** A button or a link. */
  action?: ComponentChildren;
  level?: "info" | "warning" | "error";
}

/** Notice explains why there is nothing to show, and what to do. */
export function Notice({ title, children, action, level = "info" }: NoticeProps) {
  return (
    <div class={`notice ${level}`} role={level === "error" ? "alert" : undefined}>
      <h2>{title}</h2>
      {children && <div class="notice-text">{children}</div>}
      {action && <div class="notice-action">{action}</div>}
    </div>
  );
}
