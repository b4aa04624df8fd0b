package runner

import (
	"maps"
	"slices"

	"github.com/vishvananda/netlink"
)

// byIndex returns the tasks by the present names of their devices. A device that was renamed since
// its tasks were placed is still the same one, also for a session that selects it by its earlier
// name, as long as no other device has that name.
func (r *Runner) byIndex(placed map[string]deviceTasks) map[string]deviceTasks {
	indexes, devices := map[string]int{}, map[string]deviceTasks{}
	r.names = map[int]string{}
	for _, name := range slices.Sorted(maps.Keys(placed)) {
		present := name
		index := r.indexes[name]
		if found, err := netlink.LinkByName(name); err == nil {
			index = found.Attrs().Index
		} else if renamed, err := netlink.LinkByIndex(index); index != 0 && err == nil {
			present = renamed.Attrs().Name
		}
		indexes[name], r.names[index] = index, present
		tasks := devices[present]
		tasks.sources = append(tasks.sources, placed[name].sources...)
		tasks.destinations = append(tasks.destinations, placed[name].destinations...)
		devices[present] = tasks
	}
	r.indexes = indexes
	return devices
}

// rename gives what runs on devices the names of these that byIndex has found.
func (r *Runner) rename() {
	rekey(r.sources, r.names, func(s *deviceSource) int { return s.device.Index })
	rekey(r.destinations, r.names, func(d *deviceDestination) int { return d.device.Index })
}

// rekey moves what runs on a renamed device to its new name. What runs on a device that is gone, and
// whose name another one has taken, gets a name without tasks.
func rekey[T any](running map[string]T, names map[int]string, index func(T) int) {
	renamed := map[string]T{}
	for name, one := range running {
		if now, ok := names[index(one)]; ok && now != name {
			delete(running, name)
			renamed[now] = one
		}
	}
	for name, one := range renamed {
		if gone, ok := running[name]; ok {
			running[name+" (removed)"] = gone
		}
		running[name] = one
	}
}
