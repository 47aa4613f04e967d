# 802.11b of the peer comparison: data at 2 Mb/s, long preamble, ACKs and broadcasts at 1 Mb/s, no RTS.
Mac/802_11 set dataRate_ 2Mb
Mac/802_11 set basicRate_ 1Mb
Mac/802_11 set RTSThreshold_ 3000
Mac/802_11 set CWMin_ 31
Mac/802_11 set SlotTime_ 0.000020
Mac/802_11 set SIFS_ 0.000010
Mac/802_11 set PreambleLength_ 144
Mac/802_11 set PLCPHeaderLength_ 48
Mac/802_11 set PLCPDataRate_ 1Mb
