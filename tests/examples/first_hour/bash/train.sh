for i in $(seq 1 200); do
  sleep 0.05
  echo "step $i loss $(echo "scale=4; 1/$i" | bc 2>/dev/null || echo 0.$((1000 - i)))"
done
echo done > model.txt
