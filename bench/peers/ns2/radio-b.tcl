# Slot, SIFS, contention window and long preamble of 802.11b.
Mac/802_11 set CWMin_ 31
Mac/802_11 set SlotTime_ 0.000020
Mac/802_11 set SIFS_ 0.000010
Mac/802_11 set PreambleLength_ 144
Mac/802_11 set PLCPHeaderLength_ 48
Mac/802_11 set PLCPDataRate_ 1Mb
