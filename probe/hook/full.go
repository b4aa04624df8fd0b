package hook

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// ErrFull says that a hook holds as many programs as the kernel allows.
var ErrFull = errors.New("the hook is full")

// explainFull names the programs of a hook that has no room for another one; other errors it returns as they are.
func explainFull(device Device, attach ebpf.AttachType, err error) error {
	if !errors.Is(err, unix.ERANGE) {
		return err
	}
	result, unread := link.QueryPrograms(link.QueryOptions{Target: device.Index, Attach: attach})
	if unread != nil {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	counts := map[string]int{}
	for _, p := range result.Programs {
		counts[nameOf(p.ID, "unknown")]++
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] })
	for i, name := range names {
		names[i] = fmt.Sprintf("%d of %s", counts[name], name)
	}
	return fmt.Errorf("%w: it holds %d programs, the most that the kernel allows, among them %s: %w", ErrFull,
		len(result.Programs), strings.Join(names[:min(len(names), namedMax)], ", "), err)
}
