package lab

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

var (
	labName       = regexp.MustCompile(`^[a-z][a-z0-9]{0,14}$`)
	hostName      = regexp.MustCompile(`^[a-z][a-z0-9-]{0,14}$`)
	linkName      = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)
	interfaceName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9._-]{0,14}$`)

	// Names that mean something else in a namespace or under /proc/sys.
	reservedNames = []string{"lo", "all", "default"}
)

// fault is what is wrong with a spec and where: a YAML path such as $.links[0].
type fault struct {
	path string
	what string
}

func (f *fault) Error() string { return f.what }

func faultf(path, format string, args ...any) error {
	return &fault{path, fmt.Sprintf(format, args...)}
}

// validate completes the spec and returns the first thing that is wrong with it.
func (s *Spec) validate() error {
	if !labName.MatchString(s.Name) {
		return faultf("$.name", "lab name %q: not a lower case letter and up to 14 letters and digits", s.Name)
	}
	if len(s.Hosts) == 0 {
		return faultf("$", "lab %s: has no hosts", s.Name)
	}
	nodes := map[uint32]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Hosts)) {
		if !hostName.MatchString(name) || slices.Contains(reservedNames, name) {
			return faultf("$.hosts", "host name %q: not a lower case letter and up to 14 letters, digits and hyphens, or reserved", name)
		}
		if slices.ContainsFunc(s.Hosts[name].Run, func(line string) bool { return strings.TrimSpace(line) == "" }) {
			return faultf("$.hosts."+name+".run", "run of host %s: a command is empty", name)
		}
		if id := s.Hosts[name].IOAM; id != 0 {
			if id > ioamMax {
				return faultf("$.hosts."+name+".ioam", "ioam %#x of host %s: not from 0x1 to %#x", id, name, ioamMax)
			}
			if other, taken := nodes[id]; taken {
				return faultf("$.hosts."+name+".ioam", "ioam %#x of host %s: already taken by %s", id, name, other)
			}
			nodes[id] = name
		}
	}
	if !slices.Contains([]string{"", "auto", "none"}, s.Routes) {
		return faultf("$.routes", "routes %q: neither auto nor none", s.Routes)
	}
	if !slices.Contains([]string{"", "static", "learned"}, s.Neighbours) {
		return faultf("$.neighbours", "neighbours %q: neither static nor learned", s.Neighbours)
	}
	if len(s.Links) > maxLinks {
		return faultf("$.links", "lab %s: has %d links, more than %d", s.Name, len(s.Links), maxLinks)
	}
	for i := range s.Links {
		path := fmt.Sprintf("$.links[%d]", i)
		if err := s.validateLink(path, &s.Links[i]); err != nil {
			return err
		}
	}
	if err := s.validateService(); err != nil {
		return err
	}
	s.complete()
	return s.validateTogether()
}

func (s *Spec) validateService() error {
	if s.Service == nil {
		return nil
	}
	switch _, ok := s.Hosts[s.Service.Server]; {
	case s.Service.Fleet != nil && s.Service.Server != "":
		return faultf("$.service", "service: name either a server or a fleet")
	case s.Service.Fleet != nil:
		if err := s.validateFleet(); err != nil {
			return err
		}
	case !ok:
		return faultf("$.service", "service: its server %q is no host", s.Service.Server)
	}
	for _, host := range s.Service.Agents {
		if _, ok := s.Hosts[host]; !ok {
			return faultf("$.service", "service: its agent %q is no host", host)
		}
	}
	if s.Service.Forward < 0 || s.Service.Forward > 65535 {
		return faultf("$.service", "service: port %d to forward is not from 0 to 65535", s.Service.Forward)
	}
	return nil
}

// validateLink checks a link by itself, before defaults.
func (s *Spec) validateLink(path string, l *Link) error {
	if len(l.Ends) != 2 {
		return faultf(path, "link %s: has %d ends, not 2", l.Name, len(l.Ends))
	}
	for _, host := range l.Ends {
		if _, ok := s.Hosts[host]; !ok {
			return faultf(path+".ends", "link end %q: no such host", host)
		}
	}
	if l.Ends[0] == l.Ends[1] {
		return faultf(path+".ends", "link end %q: both ends are the same host", l.Ends[0])
	}
	if l.Name != "" && !linkName.MatchString(l.Name) {
		return faultf(path+".name", "link name %q: not a lower case letter and up to 30 letters, digits and hyphens", l.Name)
	}
	if n := len(l.Interfaces); n != 0 && n != 2 {
		return faultf(path+".interfaces", "interfaces: %d names, not one for each end", n)
	}
	for _, name := range l.Interfaces {
		if !interfaceName.MatchString(name) || slices.Contains(reservedNames, name) {
			return faultf(path+".interfaces", "interface name %q: not a letter and up to 14 letters, digits, dots, hyphens and underscores, or reserved", name)
		}
	}
	if l.MTU != 0 && (l.MTU < 1280 || l.MTU > 65521) {
		return faultf(path+".mtu", "mtu %d: not from 1280, the least for IPv6, to 65521", l.MTU)
	}
	for host, addresses := range l.Addresses {
		if !slices.Contains(l.Ends, host) {
			return faultf(path+".addresses", "addresses of %q: no end of this link", host)
		}
		for _, address := range addresses {
			if !address.IsValid() {
				return faultf(path+".addresses", "address of %q: needs a prefix length such as 192.0.2.1/24", host)
			}
		}
	}
	return s.validateEmulate(path+".emulate", l)
}

func (s *Spec) validateEmulate(path string, l *Link) error {
	if l.Emulate == nil {
		return nil
	}
	for host := range l.Emulate.From {
		if !slices.Contains(l.Ends, host) {
			return faultf(path+".from", "emulate from %q: no end of this link", host)
		}
	}
	if _, err := l.faults(); err != nil {
		return faultf(path, "emulate: %v", err)
	}
	return nil
}

// validateTogether checks that no two links want the same name or address.
func (s *Spec) validateTogether() error {
	names, interfaces := map[string]bool{}, map[string]bool{}
	owners := map[netip.Addr]string{}
	for i := range s.Links {
		l := &s.Links[i]
		path := fmt.Sprintf("$.links[%d]", i)
		if names[l.Name] {
			return faultf(path, "link name %s: already taken, give another with name", l.Name)
		}
		names[l.Name] = true
		for end, host := range l.Ends {
			if where := host + " " + l.Interfaces[end]; interfaces[where] {
				return faultf(path, "interface %s of %s: already taken, give others with interfaces", l.Interfaces[end], host)
			} else {
				interfaces[where] = true
			}
			for _, address := range l.Addresses[host] {
				if owner, ok := owners[address.Addr()]; ok {
					return faultf(path, "address %s of %s: already taken by %s", address.Addr(), host, owner)
				}
				owners[address.Addr()] = host
			}
		}
	}
	return nil
}
