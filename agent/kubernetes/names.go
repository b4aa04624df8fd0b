package kubernetes

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync"
)

// podsMax bounds the pods of a node, and namesMax their addresses; the default limit of a kubelet is
// 110 pods.
const podsMax, namesMax = 1000, 1000

// names has the pods of this node, and in held the pod that has each address.
type names struct {
	mu   sync.Mutex
	pods map[Pod]pod
	held map[netip.Addr]Pod
	// left is the number of pods and addresses that were left out because of the limits.
	left int
}

// replace replaces all pods and returns what has changed.
func (n *names) replace(pods []pod) []Name {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods = map[Pod]pod{}
	for _, p := range pods {
		n.pods[p.Pod] = p
	}
	return n.update()
}

// set sets or adds a pod and returns what has changed.
func (n *names) set(p pod) []Name {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pods == nil {
		n.pods = map[Pod]pod{}
	}
	n.pods[p.Pod] = p
	return n.update()
}

// remove removes a pod and returns what has changed.
func (n *names) remove(p Pod) []Name {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.pods, p)
	return n.update()
}

// update determines which pod has each address, the newer one if two pods report the same address, and
// returns the changes. It iterates over all pods, since a node has few.
func (n *names) update() (changes []Name) {
	maps.DeleteFunc(n.pods, func(_ Pod, p pod) bool { return len(p.addresses) == 0 })
	next, by := map[netip.Addr]Pod{}, map[netip.Addr]pod{}
	n.left = max(0, len(n.pods)-podsMax)
	for i, key := range slices.SortedFunc(maps.Keys(n.pods), comparePods) {
		p := n.pods[key]
		if i >= podsMax {
			delete(n.pods, key)
			continue
		}
		for _, address := range p.addresses {
			if other, shared := by[address]; shared && other.newer(&p) {
				continue
			} else if !shared && len(by) >= namesMax {
				n.left++
				continue
			}
			by[address], next[address] = p, key
		}
	}
	for address, was := range n.held {
		if _, held := next[address]; !held {
			changes = append(changes, Name{address, was, false})
		}
	}
	for address, is := range next {
		if was, held := n.held[address]; !held || was != is {
			changes = append(changes, Name{address, is, true})
		}
	}
	n.held = next
	slices.SortFunc(changes, compareNames)
	return changes
}

// all returns the addresses of pods, sorted by address.
func (n *names) all() (all []Name) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for address, p := range n.held {
		all = append(all, Name{address, p, true})
	}
	slices.SortFunc(all, compareNames)
	return all
}

// beyond returns the number of pods and addresses that were left out because of the limits.
func (n *names) beyond() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.left
}

func comparePods(a, b Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func compareNames(a, b Name) int { return a.Address.Compare(b.Address) }
