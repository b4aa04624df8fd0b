package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"pillion.dev/agent"
	"pillion.dev/agent/capture"
	"pillion.dev/agent/report"
	"pillion.dev/agent/service"
	"pillion.dev/lab"
	"pillion.dev/lab/emulator"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/hook"
	"pillion.dev/probe/router"
	"pillion.dev/probe/source"
	"pillion.dev/wire/fivetuple"
)

// errUsage marks a command line that is not understood, errValue one that is but
// asks for what cannot be.
var (
	errUsage = errors.New("not understood")
	errValue = errors.New("bad value")
)

// hints says what a user can do about the causes that a user can remove. The
// first that matches counts.
var hints = []struct {
	cause error
	hint  string
}{
	{errUsage, "pillion-agent --help shows the commands, and COMMAND --help what one of them takes"},
	{service.ErrConfig, "correct the file; docs/agent.md lists the keys"},
	{errValue, "COMMAND --help shows what the option takes"},
	{hook.ErrNotRoot, "BPF programs need root: run this with sudo"},
	{hook.ErrNoDevice, "ip link shows the devices of this network namespace"},
	{hook.ErrLink, "use a device with Ethernet or bare IP packets, and for xdp one whose driver has it"},
	{hook.ErrOldKernel, "uname -r shows the kernel; see the requirements in README.md"},
	{hook.ErrOwned, "stop the other one first: pgrep -a pillion-agent shows it"},
	{errNetns, "ip netns list and pillion-agent lab status show names; a path and the number of a process do as well"},
	{router.ErrOptions, "pillion-agent router --help shows what the options take"},
	{fivetuple.ErrFilter, "a filter is 'src=P dst=P proto=tcp sport=N dport=N', each part at most once"},
	{source.ErrSampling, "--every 10, --random 10 and --min-gap 100us are examples"},
	{destination.ErrRecords, "--record-bytes 4194304 is the default"},
	{agent.ErrNotRunning, "start one: pillion-agent source --dev DEV"},
	{lab.ErrNotRoot, "labs need root: run this with sudo"},
	{lab.ErrSpec, "correct the file; docs of the keys are in lab/README.md"},
	{lab.ErrNoLab, "pillion-agent lab list shows the labs that are up, and lab up FILE makes one"},
	{lab.ErrMany, "name one: --lab NAME, or lab down NAME"},
	{lab.ErrNoHost, "pillion-agent lab status shows the hosts"},
	{lab.ErrNoLink, "pillion-agent lab status shows the links; only emulated ones have a truth"},
	{lab.ErrForeign, "rename the lab in its file, or remove the namespace with ip netns delete"},
	{lab.ErrBroken, "take the lab down and up again; what it said is in /run/pillion/lab/LAB/LINK.log"},
	{emulator.ErrRefused, "pillion-agent lab truth --json shows the faults in force"},
	{lab.ErrBusy, "wait for the other pillion-agent lab command to end"},
	{lab.ErrNoTun, "emulated links need tun/tap: a kernel with CONFIG_TUN, and /dev/net/tun"},
	{capture.ErrFilter, "docs/agent.md has the language: '[tcp|udp] [src|dst] host A, net P, port N', not, and, or, parentheses"},
	{capture.ErrOptions, "pillion-agent capture --dev eth0 and --read FILE are examples"},
	{capture.ErrDevice, "ip link shows the devices of this network namespace"},
	{capture.ErrLink, "capture with tcpdump and read its file, if that has another link layer"},
	{capture.ErrRights, "run this with sudo"},
	{capture.ErrFile, "rows before the fault are good"},
	{report.ErrURI, "--oml 127.0.0.1:3003, --oml file:rows.oml and --oml file:- are examples"},
	{exec.ErrNotFound, "install the program, or give its path"},
	{fs.ErrNotExist, "check the path"},
	{fs.ErrPermission, "run this with sudo, or check who may read the file"},
	{unix.EISDIR, "give a file, not a folder"},
}

// Exit codes: what a user can correct, and everything else.
const (
	exitFailure = 1
	exitUser    = 2
)

// complain writes an error in one line, with a second line that helps if there is
// one, and returns the exit code.
func complain(w io.Writer, err error) int {
	fmt.Fprintf(w, "pillion-agent: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	if other := (exitError{}); errors.As(err, &other) {
		return other.code
	}
	for _, h := range hints {
		if errors.Is(err, h.cause) {
			fmt.Fprintf(w, "hint: %s\n", h.hint)
			return exitUser
		}
	}
	return exitFailure
}
