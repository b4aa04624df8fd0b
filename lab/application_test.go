package lab_test

// application reports 1,000 samples per second for 12 s to the agent of its host.
const application = `
import time
from pillion.oml import OMLBase

oml = OMLBase("app", "trial", "sensor", "tcp:localhost:3003")
oml.addmp("sine", "number:uint32 value:double")
oml.start()
begun = time.time()
for n in range(12000):
    oml.inject("sine", [n, n / 7])
    time.sleep(max(0, begun + n / 1000 - time.time()))
oml.close()
print(oml.dropped, "dropped")
`
