//go:build long

package machine

import "time"

// platform is what QEMU emulates, and what runs on it.
type platform struct {
	kernel       string // version, as far as packages name it
	architecture string // as Debian and Go call it
	emulator     string
	options      []string // of the emulator: machine and processor
	console      string   // of the kernel
	modules      []string
	programs     []string // that the tests call, with their libraries
	// packages have the programs; without any, they are this machine's.
	packages []string
	// agent adds Pillion's programs, as a release builds them.
	agent  bool
	suites []suite
}

// An emulated machine that uses more processor time or runs for longer, hangs: some minutes suffice on a fast host.
const processorTime, patience = 40 * time.Minute, time.Hour

// oldest is the oldest kernel that Pillion requires, Debian 12's own: it loads the programs of every encoding
// and both hooks, and measures by hand and in a session. Programs are attached by clsact there. It lacks what
// other tests require: probe/router netfilter links (6.4), TestModuleDevices netkit (6.7), and
// TestConnectionsGetRoom callbacks for connections that began earlier (6.12). Tests of package send are left out:
// its programs load, but sending hangs this kernel in the emulator now and then, with both processors idle.
var oldest = platform{
	kernel:       "6.1",
	architecture: "amd64",
	emulator:     "qemu-system-x86_64",
	options:      []string{"-cpu", "max"},
	console:      "ttyS0",
	modules:      []string{"veth", "tun", "sch_ingress", "cls_bpf"},
	programs:     []string{"ip", "tc", "ethtool", "sysctl"},
	agent:        true,
	suites: []suite{
		{
			Package: "lab",
			Tests: []string{
				"TestHostCanMeasure",
				"TestLostPacketsAreCountedExactly/ipv6",
				"TestLostPacketsAreCountedExactly/ipv4",
				"TestLongEncodingsAndHooks/xdp,_ipv6",
				"TestLongEncodingsAndHooks/clsact,_ipv4",
				"TestLongEncodingsAndHooks/udp-option,_xdp",
				"TestLongEncodingsAndHooks/pdm",
				"TestLongEncodingsAndHooks/ioam-trace,_xdp",
			},
		},
		{
			Package: "agent/runner",
			Tests:   []string{"TestSessionsStartAndStop"},
		},
		{
			Package: "probe/source",
			Tests: []string{
				"TestTry",
				"TestClearedCallbacks/ipv4",
				"TestGoldenOriginalsAreMarked/shim_delay,loss",
				"TestGoldenOriginalsAreMarked/ipip_delay,loss",
				"TestGoldenOriginalsAreMarked/udp_delay,loss",
				"TestGoldenOriginalsAreMarked/udp-option_delay,loss",
				"TestGoldenOriginalsAreMarked/tcp-option_delay,loss",
				"TestGoldenOriginalsAreMarked/ioam-e2e_delay,loss",
				"TestGoldenOriginalsAreMarked/ioam-trace_delay,loss",
				"TestGoldenOriginalsAreMarked/pdm_delay,loss",
				"TestGoldenOriginalsAreMarked/altmark_delay,loss",
				"TestMSSIsClamped",
				"TestValidationComesBeforeMarks/IPv6",
				"TestPathProbesAreMarked/udp-option",
				"TestIngressOption/native_tagged=true",
				"TestIngressInStandards/ioam-trace_delay,loss_tagged=true",
			},
		},
		{
			Package: "probe/destination",
			Tests:   []string{"TestGoldenVectorsAreRestored", "TestReplace", "TestHistogramInKernel", "TestPagesAreFreedWithTheirFlow", "TestFlowsByRule"},
		},
		{
			Package: "probe/hook",
			Tests:   []string{"TestFiltersOfKilledProcess", "TestReplace", "TestCloseLeavesTheNext"},
		},
	},
}

// amd64 covers each hook on a kernel that CI does not run.
var amd64 = platform{
	kernel:       "6.12",
	architecture: "amd64",
	emulator:     "qemu-system-x86_64",
	options:      []string{"-cpu", "max"},
	console:      "ttyS0",
	modules:      []string{"veth", "tun", "dummy", "8021q", "bonding", "ipvlan", "geneve", "sit", "vrf", "sch_ingress", "sch_tbf", "sch_netem", "sch_fq", "sch_etf", "cls_bpf", "cls_u32", "act_mirred"},
	programs:     []string{"ip", "tc", "ethtool", "sysctl"},
	suites: []suite{
		{
			Package: "probe/router",
			Tests: []string{
				"TestForwardedPacketsAreCountedExactly/ipv4",
				"TestForwardedPacketsAreCountedExactly/ipv6",
				"TestRecordsAddUpToTheHistograms/no_queue",
				"TestAccountOfStreamsBalances/gro_and_cut",
				"TestLongAccountOfStreamsBalances/gro",
				"TestLocalDeliveryIsNotForwarding/ipv6",
				"TestFragmentsAreCountedAsTheirPacket",
			},
		},
		{
			Package: "probe/source",
			Tests: []string{
				"TestGoldenOriginalsAreMarked/udp_delay,loss",
				"TestGoldenOriginalsAreMarked/udp-option_delay,loss",
				"TestTCPOptionIsFilled/delay,loss",
				"TestConnectionsGetRoom/ipv4",
				"TestConnectionsGetRoom/ipv6",
				"TestMSSIsClamped",
				"TestValidationComesBeforeMarks/IPv6",
				"TestValidationComesBeforeMarks/IPv4",
				"TestPathProbesAreMarked/udp-option",
				"TestLongTransparencyWithoutLinkHeader/udp",
				"TestIngressOption/native_tagged=true",
				"TestIngressOption/udp_tagged=true",
				"TestIngressInStandards/ioam-trace_delay,loss_tagged=true",
			},
		},
		{
			Package: "probe/device",
			Tests: []string{
				"TestModuleDevices/VLAN,_the_device_below",
				"TestModuleDevices/bond,_its_port",
				"TestModuleDevices/VRF,_sockets_outside_of_it,_the_device_in_the_VRF",
				"TestModuleDevices/netkit,_the_device",
			},
		},
		{
			Package: "probe/destination",
			Tests:   []string{"TestReplace", "TestHistogramInKernel", "TestPagesAreFreedWithTheirFlow", "TestFlowsByRule"},
		},
		{
			Package: "send",
			Tests: []string{
				"TestLaunchTime/fq",
				"TestLaunchTime/etf",
				"TestEveryPacketArrivesOnce/bpf/udp/ipv4",
				"TestEveryPacketArrivesOnce/xdp/udp/ipv6",
				"TestClockIsStepped/bpf",
				"TestClockIsStepped/packet-spin",
				"TestClockIsStepped/udp-sleep",
			},
		},
	},
}

// arm64 loads each program on another processor, and measures with the agent of a release.
var arm64 = platform{
	kernel:       "6.12",
	architecture: "arm64",
	emulator:     "qemu-system-aarch64",
	// Its clock counts instructions, so that a busy host does not make it slower: the programs'
	// own time limits hold.
	options:  []string{"-machine", "virt,gic-version=3", "-cpu", "neoverse-n1", "-icount", "shift=1,sleep=off"},
	console:  "ttyAMA0",
	modules:  []string{"veth", "tun", "sch_ingress", "cls_bpf"},
	programs: []string{"ip", "tc", "ethtool"},
	packages: []string{"iproute2", "ethtool", "libbpf1", "libbsd0", "libc6", "libcap2", "libelf1", "libmd0", "libmnl0", "libxtables12", "zlib1g"},
	agent:    true,
	suites: []suite{
		{
			Package: "lab",
			Tests: []string{
				"TestHostCanMeasure",
				"TestLostPacketsAreCountedExactly/ipv6",
				"TestLostPacketsAreCountedExactly/ipv4",
				"TestLongEncodingsAndHooks/xdp,_ipv6",
				"TestLongEncodingsAndHooks/clsact,_ipv4",
				"TestProfileOfARouter",
			},
		},
		{
			Package: "probe/router",
			Tests:   []string{"TestForwardedPacketsAreCountedExactly/ipv6"},
		},
		{
			Package: "probe/source",
			Tests: []string{
				"TestGoldenOriginalsAreMarked/udp_delay,loss",
				"TestConnectionsGetRoom/ipv6",
				"TestIngressOption/native_tagged=true",
			},
		},
		{
			Package: "probe/destination",
			Tests:   []string{"TestHistogramInKernel"},
		},
		{
			Package: "send",
			Tests:   []string{"TestEveryPacketArrivesOnce/bpf/udp/ipv4", "TestEveryPacketArrivesOnce/xdp/udp/ipv6"},
		},
	},
}
