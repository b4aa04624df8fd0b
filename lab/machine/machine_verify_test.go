//go:build verify

package machine

import "testing"

// TestVerifyDebianKernelOnArm64: programs load and measure on another processor.
func TestVerifyDebianKernelOnArm64(t *testing.T) { arm64.test(t) }
