package hook

import (
	"fmt"

	"github.com/cilium/ebpf"
)

// SetConstants sets constants of a program by name, before it is loaded. A bool
// becomes the 0 or 1 that the programs read.
func SetConstants(spec *ebpf.CollectionSpec, constants map[string]any) error {
	for name, value := range constants {
		if b, ok := value.(bool); ok {
			value = uint32(0)
			if b {
				value = uint32(1)
			}
		}
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// Load loads the programs and maps into the fields of objects. Its error is ErrOldKernel with the
// version that has a missing feature, or ErrRefused with the verifier's reason, where the kernel only
// says no. Maps in shared, by name, take the place of new ones; they stay the caller's to close.
func Load(spec *ebpf.CollectionSpec, objects any, shared map[string]*ebpf.Map) error {
	return Explain(spec.LoadAndAssign(objects, &ebpf.CollectionOptions{MapReplacements: shared}))
}
