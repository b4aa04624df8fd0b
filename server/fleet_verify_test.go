//go:build verify

package server_test

import "testing"

func TestVerifyFleetLease(t *testing.T) { restartFleet(t) }
