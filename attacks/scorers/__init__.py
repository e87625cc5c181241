"""How membership is read off, one attack a file: functions of arrays, higher means more likely a member."""
