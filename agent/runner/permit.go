package runner

import (
	"slices"

	"pillion.dev/session"
)

// permitted returns the tasks of an assignment that the policy of the host allows, with the
// peers that it allows, and why others are refused.
func (r *Runner) permitted(a session.Assignment) (session.Assignment, []session.TaskState) {
	var faults []session.TaskState
	refuse := func(role, name, device string, err error) bool {
		if err != nil {
			faults = append(faults, session.TaskState{Session: name, Role: role, Device: device, Error: err.Error()})
		}
		return err != nil
	}
	p := r.options.Policy
	allowed := a
	allowed.Sources, allowed.Destinations, allowed.Points = nil, nil, nil
	for _, task := range a.Sources {
		if refuse(roleSource, task.Session, task.Device, p.Source(task)) {
			continue
		}
		peers, err := p.Permit(task.Peers)
		refuse(roleSource, task.Session, task.Device, err)
		if task.Peers = peers; len(peers) > 0 {
			allowed.Sources = append(allowed.Sources, task)
		}
	}
	for _, task := range a.Destinations {
		if refuse(roleDestination, task.Session, task.Device, p.Destination(task)) {
			continue
		}
		peers, err := p.Permit(task.Peers)
		refuse(roleDestination, task.Session, task.Device, err)
		if task.Peers = peers; len(peers) > 0 {
			allowed.Destinations = append(allowed.Destinations, task)
		}
	}
	for _, task := range a.Points {
		if refuse(task.Point, task.Session, "", p.Point(task)) {
			continue
		}
		peers, err := p.Permit(task.Peers)
		if refuse(task.Point, task.Session, "", err) && len(peers) == 0 {
			continue
		}
		task.Peers = peers
		allowed.Points = append(allowed.Points, task)
	}
	return allowed, faults
}

// permittedDevices removes devices that the policy does not allow.
func (r *Runner) permittedDevices(devices map[string]deviceTasks) {
	for device, tasks := range devices {
		err := r.options.Policy.Device(device)
		if err == nil {
			continue
		}
		delete(devices, device)
		for _, task := range tasks.sources {
			r.fail(roleSource, task.Session, device, err)
		}
		for _, task := range tasks.destinations {
			r.fail(roleDestination, task.Session, device, err)
		}
	}
}

// placed returns the tasks of each device that the policy allows.
func (r *Runner) placed() map[string]deviceTasks {
	allowed, refused := r.permitted(r.assignment)
	placed, faults := place(allowed)
	devices := r.byIndex(placed)
	r.allowed = allowed.Points
	r.faults = slices.Concat(refused, faults)
	r.permittedDevices(devices)
	return devices
}
