//go:build verify

package router

import "testing"

func TestVerifyProfilesStartAndStopUnderTraffic(t *testing.T) { profilesComeAndGo(t, 50) }
