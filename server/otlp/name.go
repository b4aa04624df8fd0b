package otlp

import "strings"

// The prefix of the metrics that are exported, and what follows it.
const (
	prefix    = "pillion_"
	namespace = "pillion."
)

// conventional are the metrics of the process that have a name in the semantic conventions.
var conventional = map[string]struct{ name, unit string }{
	"process_cpu_seconds_total":     {"process.cpu.time", "s"},
	"process_resident_memory_bytes": {"process.memory.usage", "By"},
	"process_open_fds":              {"process.unix.file_descriptor.count", "{file_descriptor}"},
	"go_goroutines":                 {"go.goroutine.count", "{goroutine}"},
}

// units are those at the end of a name in Prometheus which the name in OpenTelemetry leaves out.
var units = map[string]string{"seconds": "s", "bytes": "By"}

// counted are the words at the end of a name that say what is counted.
var counted = map[string]string{
	"addresses": "{address}", "agents": "{agent}", "batches": "{batch}", "commits": "{commit}", "connections": "{connection}",
	"packets": "{packet}", "points": "{point}", "requests": "{request}", "rows": "{row}", "sessions": "{session}",
}

// nameOf returns the name and the unit of a metric in OpenTelemetry, of which Prometheus makes the name that it has
// there; no name: it is not exported.
func nameOf(name string) (string, string) {
	if c, ok := conventional[name]; ok {
		return c.name, c.unit
	}
	rest, ours := strings.CutPrefix(name, prefix)
	if !ours {
		return "", ""
	}
	rest = strings.TrimSuffix(rest, "_total")
	stem, last := "", rest
	if i := strings.LastIndexByte(rest, '_'); i >= 0 {
		stem, last = rest[:i], rest[i+1:]
	}
	if unit, ok := units[last]; ok {
		if stem == "" { // pillion_bytes_total
			stem = last
		}
		return namespace + stem, unit
	}
	return namespace + rest, counted[last]
}
