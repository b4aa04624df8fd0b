package quantity

import "encoding/json"

// MarshalMeasured is json.Marshal for figures of which those named were not measured unless a
// condition holds: they are null then. Figures must not have the method MarshalJSON that calls it.
func MarshalMeasured(measured bool, figures any, names ...string) ([]byte, error) {
	text, err := json.Marshal(figures)
	if measured || err != nil {
		return text, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	for _, name := range names {
		members[name] = json.RawMessage("null")
	}
	return json.Marshal(members)
}

// FormatMeasuredNanos is FormatNanos, or a hyphen for a time that was not measured.
func FormatMeasuredNanos(measured bool, ns int64) string {
	if !measured {
		return "-"
	}
	return FormatNanos(ns)
}
