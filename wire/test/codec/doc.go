// Package codec is the reference codec of marks: tests compare the BPF programs,
// the C header and the Wireshark dissector with it. It inserts marks into whole
// IP packets, extracts them, and loads the golden vectors in testdata, which its
// own tests write with -update. Only tests import it: in a running agent the BPF
// programs read and write marks. The layouts are documented in package wire.
package codec
