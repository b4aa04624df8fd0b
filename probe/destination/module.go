package destination

import (
	"pillion.dev/measure/module"
)

// States are what modules kept of a flow, or of a group of them, by the module.
type States map[*module.Descriptor]*module.State

// add puts other states into these, which may be nil, and returns the result.
func (s States) add(other States) States {
	if s == nil && len(other) > 0 {
		s = States{}
	}
	for d, state := range other {
		to := s[d]
		if to == nil {
			to = &module.State{}
			s[d] = to
		}
		d.Add(to, state)
	}
	return s
}

// States are the states of the modules whose data the packets of a row carried.
func (r *Row) States() States { return r.values.states }

// readStates returns the states that a program handed over, by the position of their flow.
func (d *Destination) readStates(flows int) ([]States, error) {
	var n uint32
	if err := d.objects.CollectedModules.Get(&n); err != nil || n == 0 {
		return make([]States, flows), err
	}
	collected := make([]destinationCollectedState, n)
	if err := firstOf(d.objects.CollectedStates, collected); err != nil {
		return nil, err
	}
	states := make([]States, flows)
	for _, c := range collected {
		described := module.WithState(uint8(c.Id))
		if described == nil || int(c.Flow) >= flows {
			continue
		}
		states[c.Flow] = states[c.Flow].add(States{described: {Words: c.State.Words, LastNs: c.State.LastNs}})
	}
	return states, nil
}

// statesPerFlow is how many modules may keep states of each flow of a full table.
const statesPerFlow = 4
