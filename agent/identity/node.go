package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// nameMax is the maximum length of the name of an agent, bytes.
const nameMax = 63

// NodeName returns the name of the agent of a Kubernetes node. Names of nodes are DNS names of up
// to 253 bytes, unique in a cluster; names of agents have no dots and at most nameMax bytes. So dots
// become hyphens, and a hash of the whole name replaces the end of a longer name.
func NodeName(node string) string {
	name := strings.ReplaceAll(node, ".", "-")
	if len(name) <= nameMax {
		return name
	}
	sum := sha256.Sum256([]byte(node))
	hash := hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:nameMax-len(hash)-1], "-") + "-" + hash
}
