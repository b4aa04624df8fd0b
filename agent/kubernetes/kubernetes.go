// Package kubernetes names the addresses of the pods of this node: it lists and watches them
// through the API of the cluster, and reads labels of the node.
//
// It needs the rights to get, list and watch pods and to get its node, no others, and changes nothing
// in the cluster. What it cannot read or does not understand it reports and tries again: it never keeps
// the agent from measuring.
//
// In the flow it stands between the API of the cluster and the point pods.
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
	// Enabled: pods of this node are named.
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

// DefaultNodeLabels are the keys of labels that say where a node is.
var DefaultNodeLabels = []string{"topology.kubernetes.io/region", "topology.kubernetes.io/zone"}

// Where the cluster puts what identifies a pod to the API.
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
			return c, errors.New("api: use the https URL of the Kubernetes API: this is no pod, which would know it")
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

// Pod is a pod of this node with addresses of its own.
type Pod struct{ Namespace, Name string }

// Name says that a pod has an address, or no longer has it.
type Name struct {
	Address netip.Addr
	Pod     Pod
	Held    bool
}

// nameMax is the maximum length of the name of an object, namespaceMax of the name of a namespace.
const nameMax, namespaceMax = 253, 63

// validName reports whether text can name an object.
func validName(text string, most int) bool {
	return text != "" && len(text) <= most && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") == "" &&
		!strings.ContainsAny(text[:1]+text[len(text)-1:], "-.")
}
