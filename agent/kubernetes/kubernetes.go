// Package kubernetes names the addresses of the pods of this node: it lists and watches them
// through the API of the cluster, and reads labels of the node.
//
// It needs only the rights to get, list and watch pods and to get its node, and changes nothing in the
// cluster. It logs failed requests and invalid answers and tries again: they never keep the agent from
// measuring.
//
// In the flow it stands between the API of the cluster and the measurement point "pods".
package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"pillion.dev/session"
)

// Config says how the API is reached.
type Config struct {
	// Enabled says that addresses get the names of the pods of this node.
	Enabled bool `yaml:"enabled"`
	// API is the https URL of the API; default: the API of this pod's cluster.
	API string `yaml:"api"`
	// TokenFile has the bearer token, which is read again for every request; CAFile the certificates
	// of the authority of the API. Default: the files of this pod's service account.
	TokenFile string `yaml:"token_file"`
	CAFile    string `yaml:"ca_file"`
	// NodeLabels are keys of labels of the node that the agent claims; default DefaultNodeLabels.
	NodeLabels []string `yaml:"node_labels"`
}

// DefaultNodeLabels are the keys of the well-known labels with the region and the zone of a node.
var DefaultNodeLabels = []string{"topology.kubernetes.io/region", "topology.kubernetes.io/zone"}

// Files with the credentials of a pod's service account, in the container.
const (
	account          = "/var/run/secrets/kubernetes.io/serviceaccount/"
	DefaultTokenFile = account + "token"
	DefaultCAFile    = account + "ca.crt"
)

// nodeLabelsMax bounds NodeLabels.
const nodeLabelsMax = 32

// Complete fills in defaults and validates. Node is the name of this node.
func (c Config) Complete(node string) (Config, error) {
	if !c.Enabled {
		return c, nil
	}
	if !validName(node, nameMax) {
		return c, fmt.Errorf("node %.70q: use the name of this host in Kubernetes: lower-case letters, digits, inner hyphens and dots", node)
	}
	if c.API == "" {
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" {
			return c, errors.New("api: use the https URL of the Kubernetes API: it has no default outside of a pod")
		}
		c.API = "https://" + net.JoinHostPort(host, cmp.Or(port, "443"))
	}
	if u, err := url.Parse(c.API); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return c, fmt.Errorf("api %.70q: use the https URL of the Kubernetes API", c.API)
	}
	c.TokenFile, c.CAFile = cmp.Or(c.TokenFile, DefaultTokenFile), cmp.Or(c.CAFile, DefaultCAFile)
	if c.NodeLabels == nil {
		c.NodeLabels = DefaultNodeLabels
	}
	if len(c.NodeLabels) > nodeLabelsMax {
		return c, fmt.Errorf("node_labels: %d keys, limit %d", len(c.NodeLabels), nodeLabelsMax)
	}
	for _, key := range c.NodeLabels {
		if !session.ValidLabel(key, "") {
			return c, fmt.Errorf("node_labels: %.70q: use letters, digits and inner ._/-, at most 63", key)
		}
	}
	return c, nil
}

// Pod identifies a pod of this node that has its own addresses rather than the node's.
type Pod struct{ Namespace, Name string }

// Name is an address and its pod. Held says whether the pod has the address, or no longer has it.
type Name struct {
	Address netip.Addr
	Pod     Pod
	Held    bool
}

// nameMax and namespaceMax are the maximum lengths, bytes, of the names of an object and of a namespace.
const nameMax, namespaceMax = 253, 63

// validName reports whether text can name an object.
func validName(text string, most int) bool {
	return text != "" && len(text) <= most && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") == "" &&
		!strings.ContainsAny(text[:1]+text[len(text)-1:], "-.")
}
