// Two gateways with an IPsec tunnel between them: plain packets in, ESP between the gateways, plain packets out.
//
// `tidegate run examples/ipsec.click --clock trace -H tunnel.count -H plain.count` runs it from the folder above.
// The packets that come out are those of the capture that go from the first host to the second; the packets between
// the gateways are in a capture of their own, where nobody without the keys can read them. Both gateways have the same
// SPI and keys. Make keys of your own (`head -c 16 /dev/urandom | xxd -p`): whoever knows them can read all packets.
// The bytes are those of Click's elements, with which these gateways understand each other; for tunnels to other
// implementations of IPsec, use the kernel's. For another capture, keys or MTU, add IN=FILE OUT=FILE KEY='\<...>'
// AUTH_KEY='\<...>' MTU=1400 after the name.

define($IN configs/data/quickstart.pcap, $OUT ipsec-out.pcap, $ESP ipsec-esp-out.pcap, $MTU 1500,
    $KEY \<7b1c90a55fd2e83607c4419b2ad8f36e>, $AUTH_KEY \<c25e0f8137b649dda08c1276e59b34f1>)

// The gateway of 10.1.0.1, whose outside address is 192.0.2.1: packets to 10.1.0.2 go into the tunnel. The digest is
// computed before encryption, as Click's elements need it.
left :: RadixIPsecLookup(192.0.2.1 0, 10.1.0.1/32 2, 10.1.0.2/32 192.0.2.2 1 1001 $KEY $AUTH_KEY 1 32);
FromDump($IN) -> ether :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader
    -> host :: IPClassifier(src host 10.1.0.1, -) -> GetIPAddress(16) -> left;
left[1] -> DecIPTTL -> tunnel :: Counter -> IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> IPsecAES(1) -> IPsecEncap(50)
    -> FixIPSrc(192.0.2.1) -> IPFragmenter($MTU) -> wire :: Tee -> ToDump($ESP, ENCAP IP);
ether[1] -> Discard; host[1] -> Discard; left[0] -> Discard; left[2] -> Discard;

// The gateway of 10.1.0.2, whose outside address is 192.0.2.2: ESP packets that come to it leave the tunnel. What comes
// out must be from 10.1.0.1.
right :: RadixIPsecLookup(192.0.2.2 0, 10.1.0.2/32 2, 10.1.0.1/32 192.0.2.1 1 1001 $KEY $AUTH_KEY 1 32);
wire[1] -> CheckIPHeader -> IPReassembler -> GetIPAddress(16) -> right;
right[0] -> StripIPHeader -> IPsecAES(0) -> IPsecAuthHMACSHA1(1) -> IPsecESPUnencap -> CheckIPHeader
    -> inside :: IPClassifier(dst host 10.1.0.2 and src host 10.1.0.1, -) -> DecIPTTL -> plain :: Counter
    -> ToDump($OUT, ENCAP IP);
inside[1] -> Discard; right[1] -> Discard; right[2] -> Discard;
