package lab

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestRoutes(t *testing.T) {
	tests := map[string]struct{ hosts, links, host, want string }{
		"neighbours need none":    {"a: {}, b: {}", "a b", "a", ""},
		"through a router":        {"a: {}, r: {forward: true}, b: {}", "a r, r b", "a", "10.77.2.1 via 10.77.1.2, 10.77.2.2 via 10.77.1.2"},
		"router knows both sides": {"a: {}, r: {forward: true}, b: {}", "a r, r b", "r", ""},
		"not through a host":      {"a: {}, r: {}, b: {}", "a r, r b", "a", "10.77.2.1 via 10.77.1.2"},
		"short way round a ring": {"a: {forward: true}, b: {forward: true}, c: {forward: true}, d: {forward: true}", "a b, b c, c d, d a", "a",
			"10.77.2.1 via 10.77.1.2, 10.77.2.2 via 10.77.1.2, 10.77.3.1 via 10.77.1.2, 10.77.3.2 via 10.77.4.1"},
		"no way": {"a: {}, b: {}, c: {}, d: {}", "a b, c d", "a", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			text := "name: x\nhosts: {" + test.hosts + "}\nlinks:\n"
			for _, ends := range strings.Split(test.links, ", ") {
				text += "  - ends: [" + strings.ReplaceAll(ends, " ", ", ") + "]\n"
			}
			spec, err := ParseSpec([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			var sixth int
			for _, r := range spec.routes()[test.host] {
				if r.to.Addr().Is6() {
					sixth++
					continue
				}
				got = append(got, fmt.Sprintf("%s via %s", r.to.Addr(), r.via))
			}
			slices.Sort(got)
			if strings.Join(got, ", ") != test.want {
				t.Errorf("got %q, want %q", strings.Join(got, ", "), test.want)
			}
			if sixth != len(got) {
				t.Errorf("got %d routes for IPv6 and %d for IPv4", sixth, len(got))
			}
		})
	}
}
