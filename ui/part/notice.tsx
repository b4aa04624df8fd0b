// What a panel says when it has nothing to show, or when something went wrong.
import type { ComponentChildren } from "preact";

export interface NoticeProps {
  /** What is so, in a few words. */
  title: string;
  /** Why, and what to do next. */
  children?: ComponentChildren;
  /** A button or a link that does it. */
  action?: ComponentChildren;
  level?: "info" | "warning" | "error";
}

/** Notice says why there is nothing to see, and what to do. */
export function Notice({ title, children, action, level = "info" }: NoticeProps) {
  return (
    <div class={`notice ${level}`} role={level === "error" ? "alert" : undefined}>
      <h2>{title}</h2>
      {children && <div class="notice-text">{children}</div>}
      {action && <div class="notice-action">{action}</div>}
    </div>
  );
}
