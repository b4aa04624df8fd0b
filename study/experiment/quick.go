package experiment

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// quickBlocks is the number of blocks that intervals can be computed from at all.
const quickBlocks = 3

// Quick reduces an experiment to a proof that it works: three blocks, no budget, no requirements on the machine,
// and runs that would be invalid count. Treatments still have to do what is expected of them. The design differs
// from the design in the file, so that results of the two are never mixed.
func (s *Spec) Quick() {
	s.quick = true
	s.Stop = Stop{Blocks: quickBlocks}
	s.Environment.Require = Require{}
	s.Invalid = nil
}

// IsQuick reports whether Quick was called.
func (s *Spec) IsQuick() bool { return s.quick }

// Follow makes the experiment quick if the results in a folder are.
func (s *Spec) Follow(folder string) {
	text, err := os.ReadFile(filepath.Join(folder, DesignFile))
	var before design
	if err == nil && json.Unmarshal(text, &before) == nil && before.Quick {
		s.Quick()
	}
}
