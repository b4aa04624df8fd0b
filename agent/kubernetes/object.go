package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// object has those fields of a Pod that are used.
type object struct {
	Metadata struct {
		Name              string `json:"name"`
		Namespace         string `json:"namespace"`
		ResourceVersion   string `json:"resourceVersion"`
		CreationTimestamp string `json:"creationTimestamp"`
	} `json:"metadata"`
	Spec struct {
		NodeName    string `json:"nodeName"`
		HostNetwork bool   `json:"hostNetwork"`
	} `json:"spec"`
	Status struct {
		Phase  string `json:"phase"`
		PodIPs []struct {
			IP string `json:"ip"`
		} `json:"podIPs"`
	} `json:"status"`
}

// page has those fields of a PodList that are used.
type page struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []object `json:"items"`
}

// node has those fields of a Node that are used.
type node struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
}

// status is the answer of the API to a request that fails.
type status struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Types of events of a watch.
const (
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
	bookmark = "BOOKMARK"
	failed   = "ERROR"
)

// event is one line of a watch.
type event struct {
	kind   string
	object object // unless kind is failed
	status status // if it is
}

// parseEvent parses a line of a watch. Types that later versions may have are passed on.
func parseEvent(line []byte) (event, error) {
	var raw struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	err := json.Unmarshal(line, &raw)
	e := event{kind: raw.Type}
	switch {
	case err != nil:
	case e.kind == failed:
		err = json.Unmarshal(raw.Object, &e.status)
	case len(raw.Object) == 0:
		err = fmt.Errorf("type %.20q without an object", e.kind)
	default:
		err = json.Unmarshal(raw.Object, &e.object)
	}
	if err != nil {
		return event{}, fmt.Errorf("read event: %w", err)
	}
	return e, nil
}

// podAddressesMax bounds the addresses of a pod: there is one for each IP version.
const podAddressesMax = 8

// pod is an object with the addresses that only it has.
type pod struct {
	Pod
	created   string // RFC 3339, UTC
	addresses []netip.Addr
}

// podOf returns the pod with the addresses that it holds: none if it shares the node's, has
// ended, or is on another node. It fails for names that no object can have.
func podOf(o *object, node string) (pod, error) {
	p := pod{Pod: Pod{o.Metadata.Namespace, o.Metadata.Name}, created: o.Metadata.CreationTimestamp}
	if !validName(p.Namespace, namespaceMax) || !validName(p.Name, nameMax) {
		return p, fmt.Errorf("invalid name %.70q of a pod in the namespace %.70q", p.Name, p.Namespace)
	}
	if o.Spec.HostNetwork || o.Spec.NodeName != node || o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed" {
		return p, nil
	}
	for _, one := range o.Status.PodIPs {
		address, err := netip.ParseAddr(one.IP)
		if err != nil || address.Zone() != "" {
			return p, fmt.Errorf("invalid address %.70q of pod %s/%s", one.IP, p.Namespace, p.Name)
		}
		address = address.Unmap()
		if len(p.addresses) < podAddressesMax && !slices.Contains(p.addresses, address) && (address.IsGlobalUnicast() || address.IsLinkLocalUnicast()) {
			p.addresses = append(p.addresses, address)
		}
	}
	return p, nil
}

// newer reports whether p is rather than o the holder of an address that both state: the one that was
// created later.
func (p *pod) newer(o *pod) bool {
	if p.created != o.created {
		return p.created > o.created
	}
	return strings.Compare(p.Namespace+"/"+p.Name, o.Namespace+"/"+o.Name) > 0
}
