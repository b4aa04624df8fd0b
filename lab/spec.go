package lab

import (
	"errors"
	"fmt"
	"net/netip"

	"pillion.dev/internal/document"
	"pillion.dev/lab/emulator"
)

// Spec is a testbed as its YAML file describes it.
type Spec struct {
	// Name is a lower case letter and up to 14 letters and digits.
	Name string `yaml:"name"`
	// Hosts are network namespaces, each pl-<lab>-<host>. A name is a lower case
	// letter and up to 14 letters, digits and hyphens.
	Hosts map[string]Host `yaml:"hosts"`
	Links []Link          `yaml:"links"`
	// Routes is auto (the default), which gives every host static routes over the
	// shortest path to every address, or none.
	Routes string `yaml:"routes"`
	// Neighbours is static (the default), with permanent neighbour entries for the ends
	// of each link, or learned, by ARP and neighbour discovery. Packets sent while an
	// address is resolved are queued and can be reordered.
	Neighbours string `yaml:"neighbours"`
	// Service runs Pillion itself in the lab.
	Service *Service `yaml:"service"`
}

// Host is one namespace.
type Host struct {
	// Forward makes the host a router. Automatic routes pass through routers only.
	Forward bool `yaml:"forward"`
	// IOAM, unless 0, makes the host an IOAM node with this identifier, from 0x1 to 0xfffffe,
	// in namespace 0: it fills the traces of packets that it forwards (RFC 9197).
	IOAM uint32 `yaml:"ioam"`
	// Run are shell commands, started on the host once everything else is up; down ends
	// them. Their output is in run-<host>.log in the state folder.
	Run []string `yaml:"run"`
}

// Link connects two hosts: a veth pair or, with Emulate, two taps joined by an
// emulator process.
type Link struct {
	// Name defaults to the ends joined by a hyphen.
	Name string   `yaml:"name"`
	Ends []string `yaml:"ends"`
	// Interfaces are the names at the two ends; they default to the peer's name.
	Interfaces []string `yaml:"interfaces"`
	// Addresses are the addresses with prefix length at each end. They default,
	// for the n-th link of the file from 1, to 10.77.n.1/24 and fd77:0:0:n::1/64
	// at the first end and .2 and ::2 at the second.
	Addresses map[string][]Prefix `yaml:"addresses"`
	// MTU is 1500 by default.
	MTU     int      `yaml:"mtu"`
	Emulate *Emulate `yaml:"emulate"`
}

// Prefix is an address with a prefix length.
type Prefix struct{ netip.Prefix }

// UnmarshalYAML reads an address; its errors state the line and the form.
func (p *Prefix) UnmarshalYAML(decode func(any) error) error {
	err := document.Text(decode, &p.Prefix)
	var located *document.Error
	if errors.As(err, &located) {
		located.Cause = errors.New("an address needs a prefix length, such as 192.0.2.1/24")
	}
	return err
}

// Emulate has the impairments of a link. They apply to both directions; From overrides
// them for packets that one host sends.
type Emulate struct {
	emulator.Change `yaml:",inline"`
	// Seed makes random impairments reproducible: with the same seed and faults, the n-th
	// data packet of a direction has the same fate, except for Rate.
	Seed uint64                     `yaml:"seed"`
	From map[string]emulator.Change `yaml:"from"`
	// Truth is the path of the truth file without extension: <truth>.json and, with
	// Packets, <truth>.<host>.packets, relative to the working directory of up. The
	// default is in the lab's state folder, which down removes.
	Truth string `yaml:"truth"`
	// Packets also logs every packet, 40 bytes each.
	Packets bool `yaml:"packets"`
}

const (
	defaultMTU = 1500
	maxLinks   = 250 // default addresses number the links in one byte
)

// faults returns the faults of packets sent by Ends[i], for both i.
func (l *Link) faults() ([2]emulator.Faults, error) {
	var both [2]emulator.Faults
	for i, host := range l.Ends {
		faults, err := emulator.DefaultFaults().Apply(l.Emulate.Change)
		if override, ok := l.Emulate.From[host]; ok && err == nil {
			faults, err = faults.Apply(override)
		}
		if err != nil {
			return both, err
		}
		both[i] = faults
	}
	return both, nil
}

// complete fills in the defaults of a valid spec.
func (s *Spec) complete() {
	if s.Routes == "" {
		s.Routes = "auto"
	}
	if s.Neighbours == "" {
		s.Neighbours = "static"
	}
	for i := range s.Links {
		l := &s.Links[i]
		a, b := l.Ends[0], l.Ends[1]
		if l.Name == "" {
			l.Name = a + "-" + b
		}
		if len(l.Interfaces) == 0 {
			l.Interfaces = []string{b, a}
		}
		if l.MTU == 0 {
			l.MTU = defaultMTU
		}
		if l.Addresses == nil {
			l.Addresses = map[string][]Prefix{}
		}
		for end, host := range l.Ends {
			if l.Addresses[host] == nil {
				l.Addresses[host] = defaultAddresses(i+1, end+1)
			}
		}
	}
}

// defaultAddresses are the addresses of one end, 1 or 2, of the n-th link.
func defaultAddresses(n, end int) []Prefix {
	return []Prefix{
		{netip.MustParsePrefix(fmt.Sprintf("10.77.%d.%d/24", n, end))},
		{netip.MustParsePrefix(fmt.Sprintf("fd77:0:0:%x::%d/64", n, end))},
	}
}
