//go:build long

package router

import "testing"

func TestLongProfilesStartAndStopUnderTraffic(t *testing.T) { profilesComeAndGo(t, 50) }
