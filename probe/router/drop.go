package router

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cilium/ebpf/btf"
)

// dropReasons are the kernel's names of them.
func dropReasons(kernel *btf.Spec) map[uint32]string {
	names := map[uint32]string{}
	var enum *btf.Enum
	if kernel.TypeByName("skb_drop_reason", &enum) != nil {
		return names
	}
	for _, value := range enum.Values {
		names[uint32(value.Value)] = strings.TrimPrefix(value.Name, "SKB_DROP_REASON_")
	}
	return names
}

// dropped counts by reason and by the function that freed.
func (r *Router) dropped() (map[string]uint64, error) {
	counts := map[string]uint64{}
	var key routerDropKey
	var count uint64
	entries := r.collection.Maps[routerMapDrops].Iterate()
	for entries.Next(&key, &count) {
		name, known := r.reasons[key.Reason]
		switch {
		case key.Consumed != 0:
			name = "CONSUMED"
		case !known && key.Reason>>16 != 0: // reasons of a subsystem have their own names
			name = fmt.Sprintf("SUBSYSTEM_%d_%d", key.Reason>>16, key.Reason&0xffff)
		case !known:
			name = strconv.Itoa(int(key.Reason))
		}
		if where := symbol(key.Where); where != "" {
			name += " " + where
		}
		counts[name] += count
	}
	return counts, entries.Err()
}

type function struct {
	address uint64
	name    string
}

// functions of the kernel, in the order of their addresses.
var functions = sync.OnceValue(func() []function {
	file, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil
	}
	defer file.Close()
	var all []function
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 || !strings.ContainsAny(fields[1], "tTwW") {
			continue
		}
		address, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil || address == 0 { // hidden from us
			continue
		}
		all = append(all, function{address, fields[2]})
	}
	slices.SortStableFunc(all, func(a, b function) int {
		if a.address < b.address {
			return -1
		}
		if a.address > b.address {
			return 1
		}
		return 0
	})
	return all
})

// symbol is the function that the address is in; empty where the kernel does not provide it.
func symbol(address uint64) string {
	all := functions()
	at, _ := slices.BinarySearchFunc(all, address+1, func(f function, a uint64) int {
		if f.address < a {
			return -1
		}
		return 1
	})
	if at == 0 {
		return ""
	}
	return all[at-1].name
}
