package doctor

import (
	"strings"

	"github.com/safchain/ethtool"
)

// offloads are a device's segmentation and receive offloads, by name: on, off, or
// absent where the driver does not tell.
type offloads map[string]string

const (
	offloadOn  = "on"
	offloadOff = "off"
)

// offloadNames is the display order.
var offloadNames = []string{"gro", "gso", "tso", "lro"}

func (o offloads) String() string {
	var words []string
	for _, name := range offloadNames {
		if state := o[name]; state != "" {
			words = append(words, strings.ToUpper(name)+" "+state)
		}
	}
	if len(words) == 0 {
		return "offloads unknown"
	}
	return strings.Join(words, ", ")
}

// featureOf are the kernel's names of each offload. TCP segmentation consists of several.
var featureOf = map[string][]string{
	"gro": {"rx-gro"}, "gso": {"tx-generic-segmentation"}, "lro": {"rx-lro"},
	"tso": {"tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation", "tx-tcp6-segmentation"},
}

// Offloads describes the offloads of a device in the calling thread's namespace.
func Offloads(device string) string { return readOffloads(device).String() }

func readOffloads(device string) offloads {
	found := offloads{}
	handle, err := ethtool.NewEthtool()
	if err != nil {
		return found
	}
	defer handle.Close()
	features, _ := handle.Features(device)
	for name, parts := range featureOf {
		for _, part := range parts {
			if on, known := features[part]; on {
				found[name] = offloadOn
			} else if known && found[name] == "" {
				found[name] = offloadOff
			}
		}
	}
	return found
}
