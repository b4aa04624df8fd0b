//go:build long

package trace

import (
	"testing"
)

func TestLongChain(t *testing.T) {
	tests := map[string]struct {
		routers int
		silent  []string
		want    []int // links from whose second end the hops answer; 0: no answer
	}{
		"no router":              {0, nil, []int{1}},
		"three routers":          {3, nil, []int{1, 2, 3, 4}},
		"five routers":           {5, nil, []int{1, 2, 3, 4, 5, 6}},
		"silent first router":    {3, []string{"r1"}, []int{0, 2, 3, 4}},
		"silent router between":  {4, []string{"r3"}, []int{1, 2, 0, 4, 5}},
		"silent routers in line": {4, []string{"r2", "r3"}, []int{1, 0, 0, 4, 5}},
		"all routers silent":     {4, []string{"r1", "r2", "r3", "r4"}, []int{0, 0, 0, 0, 5}},
		"silent destination":     {2, []string{"b"}, []int{1, 2, 0, 0, 0, 0, 0}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n := newChain(t, test.routers)
			for _, host := range test.silent {
				n.silence(host)
			}
			for _, family := range families {
				t.Run(family.name, func(t *testing.T) {
					path := n.trace(Options{Destination: family.address(test.routers+1, 2), Protocol: family.protocol})
					checkChain(t, &path, family.address, test.want)
					if path.Source != family.address(1, 1) || path.Protocol != family.protocol {
						t.Errorf("got source %s, protocol %s", path.Source, path.Protocol)
					}
				})
			}
		})
	}
}
