package lab

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Complete reports whether the lab was built completely and all its emulators are
// running. An incomplete lab can only be taken down.
func (l *Lab) Complete() bool {
	for _, link := range l.Spec.Links {
		if link.Emulate == nil {
			continue
		}
		if _, alive := l.state.process(link.Name); !alive {
			return false
		}
	}
	return l.state.has("up")
}

// WriteStatus describes the lab for people.
func (l *Lab) WriteStatus(w io.Writer) error {
	condition := "up"
	if !l.Complete() {
		condition = "broken: take it down"
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "lab %s: %s\n\nHOST\tNAMESPACE\tROUTER\tINTERFACE\tADDRESSES\n", l.Spec.Name, condition)
	for _, host := range slices.Sorted(maps.Keys(l.Spec.Hosts)) {
		router := "no"
		if l.Spec.Hosts[host].Forward {
			router = "yes"
		}
		row := fmt.Sprintf("%s\t%s\t%s", host, l.Namespace(host), router)
		lines := l.interfaces(host)
		if len(lines) == 0 {
			lines = []string{"\t"}
		}
		for _, line := range lines {
			fmt.Fprintf(table, "%s\t%s\n", row, line)
			row = "\t\t"
		}
	}
	fmt.Fprintf(table, "\nLINK\tENDS\tKIND\tTRUTH\n")
	for i := range l.Spec.Links {
		link := &l.Spec.Links[i]
		kind, truth := "veth", ""
		if link.Emulate != nil {
			kind, truth = "emulated", l.Spec.truthFile(link)
			if _, alive := l.state.process(link.Name); !alive {
				kind = "emulator has ended"
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", link.Name, strings.Join(link.Ends, " "), kind, truth)
	}
	return table.Flush()
}

// interfaces are rows of interface and addresses.
func (l *Lab) interfaces(host string) []string {
	var rows []string
	for _, link := range l.Spec.Links {
		for end, name := range link.Ends {
			if name != host {
				continue
			}
			var addresses []string
			for _, address := range link.Addresses[host] {
				addresses = append(addresses, address.String())
			}
			rows = append(rows, link.Interfaces[end]+"\t"+strings.Join(addresses, " "))
		}
	}
	return rows
}
