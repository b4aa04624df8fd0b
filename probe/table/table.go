// Package table reads the tables that programs fill in the kernel.
package table

import (
	"errors"

	"github.com/cilium/ebpf"
)

// Each passes on all entries of a map, of which one system call reads so many. The value is valid
// only during the call of take.
func Each[K, V any](m *ebpf.Map, batch int, options *ebpf.BatchOptions, take func(K, *V)) error {
	keys, values := make([]K, batch), make([]V, batch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys, values, options)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
		for i := range n {
			take(keys[i], &values[i])
		}
		if err != nil {
			return nil
		}
	}
}
