//go:build verify

package lab_test

import "testing"

// TestVerifyRot damages each file of a server and of an agent in each way.
func TestVerifyRot(t *testing.T) {
	r := newRuins(t)
	for _, program := range []string{"server", "agent"} {
		for _, file := range r.files[program] {
			for _, damage := range damages {
				t.Run(program+"/"+file+"/"+damage.name, func(t *testing.T) {
					if err := r.in(t).cell(program, file, damage.apply); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}
