package runner

import (
	"pillion.dev/internal/clock"
	"pillion.dev/measure"
	"pillion.dev/measure/module"
	"pillion.dev/probe/destination"
)

// emitModules delivers what the modules of a session kept of the flows of a row.
func (d *deviceDestination) emitModules(r *subscriber, row *destination.Row, now moment, state clock.State) {
	states := row.States()
	if len(states) == 0 {
		return
	}
	keys := d.flowRow(r, row, now, state).Sample(nil)[:module.Keys:module.Keys]
	for _, name := range r.task.Modules {
		described := module.Find(name)
		if described == nil || states[described] == nil {
			continue
		}
		d.sink(described.Schema, append(append(keys, described.Values(states[described])...), r.task.labels(described)...))
	}
}

// labels are the values of the labels of a module's rows.
func (t *destinationTask) labels(d *module.Descriptor) (values []measure.Value) {
	for _, label := range d.Labels {
		text := ""
		if label.Name == module.WaypointLabel && len(t.DividedBy) == 1 {
			text = t.DividedBy[0]
		}
		values = append(values, measure.StringValue(text))
	}
	return values
}
