package live

import "sync"

// names assigns ids to names, which all shards share. An id is never reused.
type names struct {
	mutex sync.Mutex
	ids   map[string]uint32
	used  map[uint32]int
	text  map[uint32]string
	next  uint32
}

func newNames() *names {
	return &names{ids: map[string]uint32{}, used: map[uint32]int{}, text: map[uint32]string{}}
}

func (n *names) take(text string) uint32 {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	id, known := n.ids[text]
	if !known {
		id = n.next
		n.next++
		n.ids[text], n.text[id] = id, text
	}
	n.used[id]++
	return id
}

func (n *names) drop(id uint32) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.used[id]--; n.used[id] > 0 {
		return
	}
	delete(n.ids, n.text[id])
	delete(n.text, id)
	delete(n.used, id)
}

// of returns the id of a name that is in use.
func (n *names) of(text string) (id uint32, known bool) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	id, known = n.ids[text]
	return id, known
}
