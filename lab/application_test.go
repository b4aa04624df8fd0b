package lab_test

// application reports 1,000 samples per second for 12 s to the agent of its host. After 2,000 it waits until the file
// that is its argument exists, to which it writes how many samples it has reported.
const application = `
import os, sys, time
from pillion.oml import OMLBase

oml = OMLBase("app", "trial", "sensor", "tcp:localhost:3003")
oml.addmp("sine", "number:uint32 value:double")
oml.start()
begun = time.time()
for n in range(12000):
    while n == 2000 and not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    if n == 2000:
        begun = time.time() - 2
    oml.inject("sine", [n, n / 7])
    if n > 2000 and n % 1000 == 0:
        open(sys.argv[1], "w").write(str(n))
    time.sleep(max(0, begun + n / 1000 - time.time()))
oml.close()
print(oml.dropped, "dropped")
`
